package consulapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/backoff"
)

// Limits of connections. The write timeout is longer than a blocking query: read.go has a shorter one for the answer.
const (
	maxConns      = 1024
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	writeTimeout  = maxWait + maxWait/jitterShare + time.Minute
	stopLimit     = 2 * time.Second
	// listenAgain is the pause before the next attempt to listen.
	listenAgain = time.Minute
)

// CheckAddress returns an error for an address at which the API must not listen. The requests of all users of the machine
// arrive there, but none of another machine: the connection is not encrypted.
func CheckAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return fmt.Errorf(`%q is not an IP address with a port: use "127.0.0.1:8500" or "[::1]:8500"`, address)
	case !at.Addr().IsLoopback():
		return fmt.Errorf("%q is not a loopback address: tokens would cross the network without encryption; "+
			`use "127.0.0.1:%d", and for other machines the agent there`, address, at.Port())
	case at.Port() == 0:
		return fmt.Errorf("%q has no port: programs that use Consul expect 8500", address)
	}
	return nil
}

// Serve listens at the address of the configuration and serves the API until ctx ends. If something else has the port, it
// logs one warning and tries again each minute.
func (s *Server) Serve(ctx context.Context) error {
	for warned := false; ; {
		var config net.ListenConfig
		ln, err := config.Listen(ctx, "tcp", s.cfg.Address)
		if err == nil {
			s.cfg.Log.Info("the Consul API listens", "addr", s.cfg.Address)
			return s.serve(ctx, ln)
		}
		if !warned && ctx.Err() == nil {
			s.cfg.Log.Warn("the Consul API cannot listen; the agent tries again each minute", "addr", s.cfg.Address, "err", err)
			warned = true
		}
		if err := backoff.Sleep(ctx, listenAgain); err != nil {
			return err
		}
	}
}

// serve serves the API on a listener until ctx ends. Requests in progress are then canceled.
func (s *Server) serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           web.Compress(s),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if err := srv.Shutdown(within); err != nil {
			s.cfg.Log.Warn("stop the Consul API", "err", errors.Join(err, srv.Close()))
		}
	})()
	err := srv.Serve(netutil.LimitListener(ln, maxConns))
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		<-stopped
		return ctx.Err()
	}
	return err
}
