"""What a segment's file holds: frames of messages as columns, how they are found, checked and kept in memory."""
