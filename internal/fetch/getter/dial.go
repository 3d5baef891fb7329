package getter

import (
	"context"
	"net"
	"time"

	"github.com/open-nomad/open-nomad/internal/dialguard"
)

// dial connects to an address that is not refused. The check is made for each resolved address, right
// before the connection.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: dialguard.Control}
	return d.DialContext(ctx, network, address)
}
