//go:build !companion

package main

// A build without embedded programs contains them as entries.
import (
	_ "github.com/open-nomad/open-nomad/internal/fetch/getter"
	_ "github.com/open-nomad/open-nomad/internal/render/engine"
)
