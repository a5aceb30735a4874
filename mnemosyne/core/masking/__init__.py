"""What must not leave the process: credentials in addresses, errors, events and logs."""
