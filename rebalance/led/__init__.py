"""Groups led by a member: one member computes the assignment for all, over znodes, on any Kafka from 0.8 on."""
