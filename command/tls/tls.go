// Package tls holds the commands for the certificates of a cluster. The command "tls ca create"
// makes the certificate authority. The command "tls cert create" makes certificates for servers,
// clients and the command line. The info commands show the certificates in a file. None calls an
// agent.
//
//	tls ca create            <domain>-agent-ca.pem           <domain>-agent-ca-key.pem
//	tls cert create -server  <region>-server-<domain>.pem    <region>-server-<domain>-key.pem
//
// Files are written to the current directory and never overwritten. Only the owner can
// read files with a key.
package tls

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pki"
)

const (
	defaultDomain = "nomad"
	defaultRegion = "global"
	caFile        = "-agent-ca.pem"
	caKeyFile     = "-agent-ca-key.pem"
	publicMode    = 0o644
	keyMode       = 0o600
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{caCreateCommand(), caInfoCommand(), certCreateCommand(), certInfoCommand()}
}

// checkDomain rejects a domain that is invalid or cannot be a part of a file name.
func checkDomain(domain string) error {
	if err := pki.CheckDNSName(domain); err != nil || strings.HasPrefix(domain, "*") {
		return fmt.Errorf("-domain: %q is not a DNS domain", domain)
	}
	return nil
}

// checkDays rejects a validity of less than one day.
func checkDays(days int) error {
	if days < 1 {
		return fmt.Errorf("-days: %d: expected at least 1", days)
	}
	return nil
}

// pair is a certificate and its key, with their file names.
type pair struct {
	certFile, keyFile string
	cert, key         []byte
}

// write creates both files or neither.
func (p pair) write() error {
	if _, err := os.Lstat(p.certFile); err == nil {
		return exists(p.certFile)
	}
	if err := create(p.keyFile, p.key, keyMode); err != nil {
		return err
	}
	if err := create(p.certFile, p.cert, publicMode); err != nil {
		return errors.Join(err, os.Remove(p.keyFile))
	}
	return nil
}

func exists(name string) error {
	return fmt.Errorf("%s already exists: nothing written; move it, or use another directory", name)
}

// create writes a new file, and removes it after an error.
func create(name string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return exists(name)
	}
	if err != nil {
		return fmt.Errorf("Error creating file: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("Error writing file: %w", errors.Join(err, os.Remove(name)))
	}
	return nil
}

// shown reads the certificates in a file.
func shown(name string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("Error reading certificate: %w", err)
	}
	certs, err := pki.ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("Error reading certificate: %s: %w", name, err)
	}
	return certs, nil
}

// about returns the rows common to all certificates.
func about(c *x509.Certificate, now time.Time) []string {
	return []string{
		term.Row("Serial Number", c.SerialNumber),
		term.Row("Issuer CN", c.Issuer.CommonName),
		term.Row("Common Name", c.Subject.CommonName),
		term.Row("Valid From", c.NotBefore.Format(time.RFC3339)),
		term.Row("Expiry Date", c.NotAfter.Format(time.RFC3339)+validity(c, now)),
	}
}

// validity describes the validity of c at now.
func validity(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore):
		return " (not valid yet)"
	case now.After(c.NotAfter):
		return " (expired)"
	}
	return fmt.Sprintf(" (%d days left)", int(c.NotAfter.Sub(now)/(24*time.Hour)))
}

// info returns a command that prints rows for each certificate in a file.
func info(name, short, long string, rows func(*x509.Certificate) ([]string, error)) term.Command {
	return term.Command{
		Name: name, Args: "<file>", MinArgs: 1, MaxArgs: 1, Short: short, Long: long,
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				certs, err := shown(e.Arg(0))
				if err != nil {
					return err
				}
				var tables []string
				for _, c := range certs {
					more, err := rows(c)
					if err != nil {
						return fmt.Errorf("%s: %w", e.Arg(0), err)
					}
					tables = append(tables, term.Pairs(append(about(c, time.Now()), more...)))
				}
				e.Println(strings.Join(tables, "\n\n"))
				return nil
			}
		},
	}
}

// list joins values for a cell.
func list[T fmt.Stringer](values []T) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return strings.Join(out, ", ")
}

// parseIPs parses the addresses of a repeatable flag.
func parseIPs(texts []string) ([]net.IP, error) {
	var out []net.IP
	for _, text := range texts {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, fmt.Errorf("-additional-ipaddress: %q is not an IP address", text)
		}
		out = append(out, ip)
	}
	return out, nil
}
