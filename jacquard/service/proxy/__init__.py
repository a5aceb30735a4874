"""The proxy of the OpenAI and Anthropic protocols."""
