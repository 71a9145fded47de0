"""The bundled Chinese–English corpus."""
