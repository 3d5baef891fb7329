package portforward

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Pump copies the input of a session to a connection, and the connection to the output, until
// the task closes the connection or ctx ends. It closes the connection.
func Pump(ctx context.Context, conn *net.TCPConn, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go func() { // ends when the session does: the read of its input fails then
		if _, err := io.Copy(conn, readerOnly{o.Stdin}); err == nil {
			conn.CloseWrite() //nolint:errcheck // the task has closed the connection
		}
	}()
	_, err := io.Copy(writerOnly{o.Stdout}, conn)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return &drivers.ExitResult{ExitCode: 1}, nil // the task reset the connection
	}
	return &drivers.ExitResult{}, nil
}

// readerOnly and writerOnly hide other methods, so that io.Copy uses its own buffer.
type readerOnly struct{ io.Reader }

type writerOnly struct{ io.Writer }
