"""The same module in C++ against LibTorch: the sources, and `build` that compiles them."""
