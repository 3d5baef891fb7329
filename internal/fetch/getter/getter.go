// Package getter is the program that downloads artifacts.
package getter

import (
	gogetter "github.com/hashicorp/go-getter"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/sidecar"
)

func init() { companion.Register(sidecar.Fetch, func() int { return 1 }) }

var _ = gogetter.ClientModeAny
