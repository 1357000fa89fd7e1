"""The yardstick: a bare Streamlit page with one slider and one 8 × 8 Plotly heatmap."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

seed = st.slider("seed", 0, 100, 0)
values = np.random.default_rng(seed).random((8, 8))
st.plotly_chart(go.Figure(go.Heatmap(z=values)), key="chart")
