package instances

import (
	"context"

	"github.com/open-nomad/open-nomad/client/csi"
)

// Describer is what a fingerprint calls.
type Describer = describer

// Dial makes a Set connect to fakes, which have no other calls.
func (s *Set) Dial(dial func(ctx context.Context, s csi.Socket) (Describer, error)) {
	s.dial = func(ctx context.Context, socket csi.Socket) (describer, *csi.Plugin, error) {
		d, err := dial(ctx, socket)
		return d, nil, err
	}
}
