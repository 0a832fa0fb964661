"""What a choice may need: packages, trained weights, a device. May touch: errors, storage."""
