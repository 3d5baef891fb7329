package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
)

// Limits of HTTP connections. There is no write timeout, because streams last as long as the
// client reads them.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	stopLimit     = 5 * time.Second
)

// serveHTTP serves the API on a listener until ctx ends. Requests in progress are then canceled.
func (a *Agent) serveHTTP(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           web.Compress(a.api),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	conns := newWebListener(ln, a.certs, a.set.Limits.HTTPSHandshakeTimeout, a.log)
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		conns.run(ctx)
	}()
	defer func() { <-accepted }()
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if err := srv.Shutdown(patience); err != nil {
			a.log.Warn("stop the HTTP API", "err", errors.Join(err, srv.Close()))
		}
	})()
	err := srv.Serve(conns)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		<-stopped
		return ctx.Err()
	}
	return err
}
