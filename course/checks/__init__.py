"""What makes an answer right, one module per lesson."""
