"""The format zk_messages: the messages behind the groups of /consumers, batch and stream."""
