"""An OpenAI-compatible server whose models are programs that read what a real model would get."""
