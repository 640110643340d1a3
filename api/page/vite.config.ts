import { defineConfig } from 'vite';

// The page is built from src into dist, which is committed. Names of assets have the hash of their
// content; addresses are relative, so that the page works below any path.
export default defineConfig({
  root: 'src',
  base: './',
  publicDir: false,
  build: {
    outDir: process.env.PAGE_OUT ?? '../dist',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    license: { fileName: 'assets/licences.md' },
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name]-[hash].js',
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
});
