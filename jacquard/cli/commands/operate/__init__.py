"""Commands for those who run a service or look after whole stores."""
