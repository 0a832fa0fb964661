"""ATE, RPE and registration rate of poses; PSNR, SSIM and LPIPS of renders. May touch: whatever stands below it."""
