"""The classical controllers: name, parameters, paper, presets."""
