// Package apicall is the command operator api, which sends one request to any path of the HTTP API.
//
// Region, namespace, token and TLS come from the general flags and the environment, as for every
// command. The body is standard input. The response goes to standard output, whatever it contains. The
// package never prints a token, a password or the value of a secret header: -dryrun (curl.go) prints
// references to environment variables.
package apicall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxError is the length in bytes of the longest printed error body.
const maxError = 1 << 20

// options are the flags of the command.
type options struct {
	headers        *[]string
	method, filter string
	dry, verbose   bool
}

// Commands lists the command of this package.
func Commands() []term.Command {
	return []term.Command{{
		Name: "operator api", Args: "<path or URL>", MinArgs: 1, MaxArgs: 1,
		Short: "Send a request to the HTTP API",
		Long: `Prints the response. /v1/ is added to a path that does not begin with it. If data is piped to standard input, it is
the body and the method is POST. Otherwise the method is GET. A status of 400 or more ends with exit code 1, and its message is
printed to standard error.

    nomad operator api jobs
    nomad operator api -filter='Status == "running"' /v1/jobs
    nomad operator api -X PUT /v1/system/gc
    nomad operator api -namespace=prod /v1/job/web/stable <stable.json
    nomad operator api -dryrun /v1/nodes

A URL replaces the address of the agent. Redirects are not followed. -dryrun and -verbose never print the token.`,
		Setup: func(f *term.Flags) term.Run {
			o := options{headers: f.Strings("H", "Send this `header`, such as 'Accept: text/plain'; may be repeated.")}
			f.StringVar(&o.method, "X", "", "The `method`. Default: POST with a body, otherwise GET.")
			f.StringVar(&o.filter, "filter", "", "Return only the items that match this `expression`.")
			f.BoolVar(&o.dry, "dryrun", false,
				"Print a curl command instead of sending the request.\nSecrets are references to environment variables.")
			f.BoolVar(&o.verbose, "verbose", false, "Print the headers of the request and the response to standard error.")
			return func(ctx context.Context, e *term.Env) error { return call(ctx, e, o) }
		},
	}}
}

func call(ctx context.Context, e *term.Env, o options) error {
	cfg, path, err := target(e)
	if err != nil {
		return err
	}
	body, err := input(ctx, e, o.method)
	if err != nil {
		return err
	}
	c, err := api.NewClient(cfg)
	if err != nil {
		return fmt.Errorf("Error initializing client: %w", err)
	}
	req, err := o.request(ctx, c, path, body)
	if err != nil {
		return err
	}
	if o.dry {
		e.Println(curl(cfg, req, body != nil))
		return nil
	}
	if o.verbose {
		sent(e, req)
	}
	resp, err := c.Raw().Do(req)
	if err != nil {
		return fmt.Errorf("Error querying %s: %w", path, err)
	}
	defer resp.Body.Close()
	if o.verbose {
		received(e, resp)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a part of the message is still useful
		return errors.New(strings.TrimSpace(fmt.Sprintf("Error querying %s: %s %s", path, resp.Status, text)))
	}
	if _, err := io.Copy(e.Out, resp.Body); err != nil && ctx.Err() == nil {
		return fmt.Errorf("Error reading the response: %w", err)
	}
	return nil
}

// target returns the configuration and the escaped path of the request.
func target(e *term.Env) (*api.Config, string, error) {
	path := e.Arg(0)
	if scheme, _, ok := strings.Cut(path, "://"); ok {
		u, err := url.Parse(path)
		switch {
		case err != nil || scheme != "http" && scheme != "https" || u.User != nil:
			return nil, "", errors.New("Invalid URL: use http(s)://host:port/v1/path without a user")
		case e.AddressFlag() != "":
			return nil, "", errors.New("A URL and -address exclude each other: use a path")
		}
		e.SetAddress(u.Scheme + "://" + u.Host) // without the token of a context of another agent
		path = u.RequestURI()
	}
	path = "/" + strings.TrimLeft(path, "/")
	if !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/.well-known/") {
		path = "/v1" + path
	}
	return e.Config(func(*api.Config) {}), path, nil
}

// request returns the request of the flags.
func (o options) request(ctx context.Context, c *api.Client, path string, body io.Reader) (*http.Request, error) {
	method := o.method
	switch {
	case method == "" && body != nil:
		method = http.MethodPost
	case method == "":
		method = http.MethodGet
	}
	if o.filter != "" {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		path += sep + url.Values{"filter": {o.filter}}.Encode()
	}
	req, err := c.Raw().NewRequest(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("Invalid request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range *o.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errors.New("Invalid -H: use 'Name: value'")
		}
		req.Header.Set(name, strings.TrimSpace(value))
	}
	return req, nil
}

// input returns the data that is piped to standard input, nil if there is none. With an explicit GET
// or HEAD, standard input is not read.
func input(ctx context.Context, e *term.Env, method string) (io.Reader, error) {
	if method == http.MethodGet || method == http.MethodHead {
		return nil, nil
	}
	if f, ok := e.In.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil, nil // a terminal, /dev/null or a closed file
		}
	}
	in, first := bufio.NewReader(e.In), make(chan error, 1)
	go func() { // when ctx ends, the goroutine stays blocked until the command exits
		_, err := in.Peek(1)
		first <- err
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-first:
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return in, nil
	}
}

// sent prints the request without its secrets.
func sent(e *term.Env, req *http.Request) {
	e.Warnf("> %s %s", req.Method, req.URL.RequestURI())
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		e.Warnf("> %s: %s", name, public(name, req.Header.Get(name)))
	}
	e.Warnf(">")
}

func received(e *term.Env, resp *http.Response) {
	e.Warnf("< %s %s", resp.Proto, resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		e.Warnf("< %s: %s", name, public(name, resp.Header.Get(name)))
	}
	e.Warnf("<")
}
