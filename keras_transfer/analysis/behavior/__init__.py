"""Tests of behavior: minimal pairs, checklists, changed inputs. `analysis` lists what users need."""
