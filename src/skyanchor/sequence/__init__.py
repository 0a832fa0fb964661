"""The ground photos or video: order, intrinsics, masks, submaps and anchor groups."""
