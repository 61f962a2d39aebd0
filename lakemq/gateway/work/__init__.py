"""What takes long, and whose turn it is: gates and shares of clients, threads to work in, slices of the loop's
time, and who waits for messages."""
