"""`tmt train`: the stages in order, from raw text to a scored model directory."""
