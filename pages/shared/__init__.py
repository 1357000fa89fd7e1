"""What the pages share.

Imported before torch: its threads that wait for one another are to sleep, not to spin. They share
the processors with the browser, and beside it a spinning one waits several times as long.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
