package acl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// loginWithin is how long a login request is valid on the servers.
const loginWithin = 5 * time.Minute

// callback is the local listener of the redirect URI.
type callback struct {
	addr string
	l    net.Listener
}

// listen opens the address of the redirect URI.
func listen(addr string) (*callback, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w: set another -oidc-callback-addr, or use -no-browser", err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && port == "0" { // the kernel chose a free port
		_, port, err = net.SplitHostPort(l.Addr().String())
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("-oidc-callback-addr: %w", err)
	}
	return &callback{addr: net.JoinHostPort(host, port), l: l}, nil
}

func (c *callback) close() { c.l.Close() }

// outcome is the result of a login.
type outcome struct {
	token *api.ACLToken
	err   error
}

// returned opens a browser and waits for its request to the redirect URI.
func (c *callback) returned(ctx context.Context, e *term.Env, at *url.URL, end finish) (*api.ACLToken, error) {
	ctx, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	done := make(chan outcome, 1)
	s := &http.Server{Handler: answer(end, done), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan struct{})
	go func() { defer close(served); s.Serve(c.l) }() // returns after Shutdown
	defer func() { <-served }()
	defer func() { // let the page be sent first
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		s.Shutdown(last) // on a timeout the connection ends with the process
	}()
	show(e, at)
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("no response from the browser within %s", loginWithin)
		}
		return nil, ctx.Err()
	}
}

// answer handles the request to the redirect URI: it completes the login, once. A request
// that belongs to another login gets an error and changes nothing.
func answer(end finish, done chan<- outcome) http.Handler {
	mux := http.NewServeMux()
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set("Cache-Control", "no-store")
		h.Set("Connection", "close")
		<-turn
		defer func() { turn <- struct{}{} }()
		token, err := end(r.URL.Query())
		if errors.Is(err, errOther) {
			http.Error(w, "This response belongs to another login.", http.StatusBadRequest)
			return
		}
		text := "Login successful. You can close this page."
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
			text = "Login failed. The terminal shows the error."
		}
		fmt.Fprintln(w, text)
		select {
		case done <- outcome{token, err}:
		default: // a repeated request
		}
	})
	return mux
}

// show prints the URL, and opens it in a browser if there is one.
func show(e *term.Env, at *url.URL) {
	name, args := browser()
	opened := false
	if name != "" {
		cmd := exec.Command(name, append(args, at.String())...) // not CommandContext: the browser must outlive the login
		if opened = cmd.Start() == nil; opened {
			go cmd.Wait() // only to reap the process
		}
	}
	if opened {
		e.Warnf("Opening a browser. If that fails, open this URL on this machine:\n\n    %s\n", at)
		return
	}
	e.Warnf("Open this URL in a browser on this machine (use -no-browser for another machine):\n\n    %s\n", at)
}

// browser returns the program that opens URLs, "" without one.
func browser() (name string, args []string) {
	switch runtime.GOOS {
	case "darwin":
		return "open", nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return "", nil
	}
	if path, err := exec.LookPath("xdg-open"); err == nil {
		return path, nil
	}
	return "", nil
}
