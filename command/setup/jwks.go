package setup

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/open-nomad/open-nomad/command/term"
)

// maxCA limits the file of -jwks-ca-file, in bytes.
const maxCA = 256 << 10

// errNeedsYes means that nobody can answer a question.
var errNeedsYes = errors.New("This command requires -y option when running in non-interactive mode")

// options are the flags of both commands.
type options struct {
	url, ca      string // of the keys; ca is PEM
	caFile       string
	destroy, yes bool
	terminal     bool // standard input is a terminal
}

func (o *options) declare(f *term.Flags, system string) {
	f.StringVar(&o.url, "jwks-url", "http://localhost:4646/.well-known/jwks.json",
		"The `URL` of the keys of the cluster. Each server of "+system+" must reach it. Default: http://localhost:4646/.well-known/jwks.json.")
	f.StringVar(&o.caFile, "jwks-ca-file", "", "A PEM `file` with the CA of the certificate at -jwks-url.")
	f.BoolVar(&o.destroy, "destroy", false, "Delete the objects.")
	f.BoolVar(&o.yes, "y", false, "Answer yes to each question.")
}

// run reads the file of -jwks-ca-file, and checks the flags before any request.
func (o *options) run(do func(context.Context, *term.Env) error) term.Run {
	return func(ctx context.Context, e *term.Env) error {
		o.terminal = o.terminal || e.InputIsTerminal()
		if o.caFile != "" {
			ca, err := e.Input(o.caFile, maxCA)
			if err != nil {
				return fmt.Errorf("Error reading -jwks-ca-file: %w", err)
			}
			o.ca = string(ca)
		}
		if !o.terminal && !o.yes {
			return errNeedsYes
		}
		if err := o.check(); err != nil {
			return err
		}
		return do(ctx, e)
	}
}

func (o *options) check() error {
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("-jwks-url must be a URL such as https://nomad.example.com:4646/.well-known/jwks.json, without a user")
	}
	if o.ca == "" {
		return nil
	}
	if u.Scheme != "https" {
		return errors.New("-jwks-ca-file requires a -jwks-url that begins with https")
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(o.ca)) {
		return errors.New("-jwks-ca-file has no certificate in the format PEM")
	}
	return nil
}

// exposed reports whether the keys are read without TLS from another machine. Whoever can change the answer can log in as
// any workload.
func (o *options) exposed() bool {
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme == "https" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

// warn warns about keys that are exposed.
func (o *options) warn(e *term.Env, system string) {
	if o.exposed() {
		e.Warnf("Warning: %s reads the keys without TLS. Whoever can change the answer can log in as any workload.", system)
	}
}
