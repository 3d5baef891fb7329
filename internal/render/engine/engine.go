// Package engine is the program that renders templates.
package engine

import (
	"github.com/hashicorp/consul-template/manager"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/sidecar"
)

func init() { companion.Register(sidecar.Render, func() int { return 1 }) }

var _ = manager.NewRunner
