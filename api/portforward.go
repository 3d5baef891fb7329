package api

import (
	"context"
	"io"
)

// PortForward connects conn to a port of a running allocation, given by its label or number, until
// either side closes the connection. A read of conn can still be pending after PortForward has
// returned, so the caller must close it. It exists only in open-nomad.
func (a *Allocations) PortForward(ctx context.Context, alloc *Allocation, port string, conn io.ReadWriter, q *QueryOptions) error {
	at := execTarget{clientAllocPath(alloc.ID, "/port-forward"), map[string]string{"port": port}}
	_, err := a.client.exec(ctx, at, execStreams{stdin: conn, stdout: conn, stderr: io.Discard}, q)
	return err
}
