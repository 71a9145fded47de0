"""The command line: options and printing; how anything is done is known below."""
