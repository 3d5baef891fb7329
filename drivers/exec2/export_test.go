package exec2

import (
	"context"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
)

// Compare compares every task once.
func (d *Driver) Compare(ctx context.Context) {
	for _, id := range d.watch.ids() {
		d.compare(ctx, id, d.Current().OnMismatch == config.OnMismatchKill)
	}
}
