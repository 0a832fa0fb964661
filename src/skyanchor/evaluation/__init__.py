"""ATE / RPE / registration rate, PSNR / SSIM / LPIPS, ablations."""
