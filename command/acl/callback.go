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

// loginWithin is how long servers remember a login.
const loginWithin = 5 * time.Minute

// callback is the address to which a browser returns.
type callback struct {
	addr string
	l    net.Listener
}

// listen takes the address that a browser will return to.
func listen(addr string) (*callback, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w: choose another -oidc-callback-addr, or -no-browser", err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && port == "0" { // any that is free
		_, port, err = net.SplitHostPort(l.Addr().String())
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("-oidc-callback-addr: %w", err)
	}
	return &callback{addr: net.JoinHostPort(host, port), l: l}, nil
}

func (c *callback) close() { c.l.Close() }

// outcome is how a login went.
type outcome struct {
	token *api.ACLToken
	err   error
}

// returned opens a browser and waits until it comes back.
func (c *callback) returned(ctx context.Context, e *term.Env, at *url.URL, end finish) (*api.ACLToken, error) {
	ctx, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	done := make(chan outcome, 1)
	s := &http.Server{Handler: answer(end, done), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan struct{})
	go func() { defer close(served); s.Serve(c.l) }() // it ends when it is shut down
	defer func() { <-served }()
	defer func() { // after the page was sent
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		s.Shutdown(last) // what is still open then is closed with the listener
	}()
	show(e, at)
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("the browser did not come back within %s", loginWithin)
		}
		return nil, ctx.Err()
	}
}

// answer ends the login that a browser comes back from, once. What comes from another
// login, or from another page, changes nothing.
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
			http.Error(w, "This is not the login that is waited for.", http.StatusBadRequest)
			return
		}
		text := "You are logged in: this page can be closed."
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
			text = "You are not logged in: the terminal says why."
		}
		fmt.Fprintln(w, text)
		select {
		case done <- outcome{token, err}:
		default: // it came back twice
		}
	})
	return mux
}

// show opens the URL in a browser, if there is one, and prints it in any case.
func show(e *term.Env, at *url.URL) {
	name, args := browser()
	opened := false
	if name != "" {
		cmd := exec.Command(name, append(args, at.String())...) // it may be the browser itself, which stays
		if opened = cmd.Start() == nil; opened {
			go cmd.Wait() // how it ends is no matter
		}
	}
	if opened {
		e.Warnf("A browser opens. If none does, open this URL on this machine:\n\n    %s\n", at)
		return
	}
	e.Warnf("Open this URL in a browser on this machine (-no-browser is for others):\n\n    %s\n", at)
}

// browser is the program that opens URLs here, "" for none.
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
