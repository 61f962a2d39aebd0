"""What all producers share: batching, delivery with retries, back-pressure."""
