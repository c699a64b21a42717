"""The format zk_messages: messages for the groups of /consumers, as batch and stream."""
