"""ATE, RPE and registration rate of poses; PSNR, SSIM and LPIPS of renders.

- *A run against its truth*: metrics (the whole), poses, truth, tum; images, perceptual; surface, true_depth,
  shared_surface.
- *Parts left out*: ablations (which), ablate (measured), ablation_tables, papers_settings.
- *The paper's scenes*: paper_scenes, split_model, protocol.
- *Other programs*: peers, peers_pnp, foreign, peer_tables.

May touch: whatever stands below it.
"""
