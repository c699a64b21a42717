"""The main job: real servers, real flights, a group that grows, loses a member and shrinks, and a proof."""
