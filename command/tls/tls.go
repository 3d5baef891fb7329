// Package tls holds the commands that make the certificates of a cluster: tls ca
// creates its certificate authority, tls cert what that signs for servers,
// clients and the command line, and info shows what is in a file. They speak to
// no agent.
//
//	tls ca create            <domain>-agent-ca.pem           <domain>-agent-ca-key.pem
//	tls cert create -server  <region>-server-<domain>.pem    <region>-server-<domain>-key.pem
//
// Files go to the current directory. None is ever overwritten; those that hold a
// key can be read by their owner only.
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

// checkDomain refuses what can neither be a domain nor a part of a file's name.
func checkDomain(domain string) error {
	if err := pki.CheckDNSName(domain); err != nil || strings.HasPrefix(domain, "*") {
		return fmt.Errorf("-domain: %q is not a DNS domain", domain)
	}
	return nil
}

// checkDays refuses a validity of no time: only a flag that is not given has a default.
func checkDays(days int) error {
	if days < 1 {
		return fmt.Errorf("-days: %d: at least one day is expected", days)
	}
	return nil
}

// pair is a certificate and its key, and the files to hold them.
type pair struct {
	certFile, keyFile string
	cert, key         []byte
}

// write creates both files, or none.
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
	return fmt.Errorf("%s already exists: nothing written; move it away or work in another directory", name)
}

// create writes a file that was not there, and leaves nothing when it can't.
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

// shown reads the certificates of a file that a command is to show.
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

// about are the rows that CAs and other certificates have in common.
func about(c *x509.Certificate, now time.Time) []string {
	return []string{
		term.Row("Serial Number", c.SerialNumber),
		term.Row("Issuer CN", c.Issuer.CommonName),
		term.Row("Common Name", c.Subject.CommonName),
		term.Row("Valid From", c.NotBefore.Format(time.RFC3339)),
		term.Row("Expiry Date", c.NotAfter.Format(time.RFC3339)+validity(c, now)),
	}
}

// validity says what the dates mean now.
func validity(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore):
		return " (not valid yet)"
	case now.After(c.NotAfter):
		return " (expired)"
	}
	return fmt.Sprintf(" (%d days left)", int(c.NotAfter.Sub(now)/(24*time.Hour)))
}

// info is a command that shows each certificate of a file by its rows.
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

// list joins values for a row.
func list[T fmt.Stringer](values []T) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return strings.Join(out, ", ")
}

// parseIPs reads the addresses of a repeatable flag.
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
