package engine

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul-template/dependency"
)

const (
	// useOfLease is the part of a lease after which its data is read again.
	useOfLease = 0.9
	// partToRenew is the part of a lease after which it is renewed.
	partToRenew = 2.0 / 3
	// maxLease limits the durations in answers of Vault, which can have any number.
	maxLease = 10 * 365 * 24 * time.Hour
)

// lease is how long data of Vault is used.
type lease struct {
	id, token string // for the renewal; at most one is set
	begun     time.Time
	length    time.Duration
	until     time.Time // when the data is read again
}

func (l lease) renewable() bool    { return l.id != "" || l.token != "" }
func (l lease) renewAt() time.Time { return l.begun.Add(part(l.length, partToRenew*jitter(0.05))) }
func (l lease) end() time.Time     { return l.until }

// final returns the lease without renewals.
func (l lease) final() lease {
	l.id, l.token = "", ""
	return l
}

// renewed returns the lease after a renewal. If the renewal did not extend it, the lease has reached its maximum, and
// the renewal was the last.
func (l lease) renewed(granted time.Duration) lease {
	now := time.Now()
	remaining := l.begun.Add(l.length).Sub(now)
	next := newLease(l.id, l.token, granted)
	if granted <= remaining+l.length/10 {
		next = next.final()
	}
	return next
}

// newLease returns a lease that begins now.
func newLease(id, token string, length time.Duration) lease {
	now := time.Now()
	return lease{id: id, token: token, begun: now, length: length, until: now.Add(part(length, useOfLease*jitter(0.05)))}
}

func part(d time.Duration, of float64) time.Duration { return time.Duration(float64(d) * of) }

// seconds returns the duration for a number of seconds in an answer of Vault.
func seconds(n int) time.Duration {
	if n >= int(maxLease/time.Second) {
		return maxLease
	}
	return time.Duration(max(n, 0)) * time.Second
}

// errRotates means that the next read has other credentials.
var errRotates = errors.New("the credentials are being rotated")

// leaseOf returns the lease of data that was just read. standard is that of data without one.
func leaseOf(value any, standard time.Duration) (lease, error) {
	switch value := value.(type) {
	case *dependency.Secret:
		if value != nil {
			return leaseOfSecret(value, standard)
		}
	case dependency.PemEncoded:
		if until, ok := useUntil(value.Cert); ok {
			return lease{until: until}, nil
		}
		return lease{}, errVaultAnswer
	}
	return newLease("", "", standard), nil
}

func leaseOfSecret(s *dependency.Secret, standard time.Duration) (lease, error) {
	if s.LeaseID == "" && s.Auth == nil {
		return leaseOfData(s, standard)
	}
	length, id, token := seconds(s.LeaseDuration), "", ""
	switch {
	case s.Auth != nil:
		if s.Auth.LeaseDuration > 0 {
			length = seconds(s.Auth.LeaseDuration)
		}
		if s.Auth.Renewable {
			token = s.Auth.ClientToken
		}
	case s.Renewable:
		id = s.LeaseID
	}
	if length <= 0 {
		return newLease("", "", standard), nil
	}
	return newLease(id, token, length), nil
}

// leaseOfData returns the lease of data whose answer has none. Some data has fields for its end. Without them, the
// duration of the answer is only a hint: a key-value engine of version 1 has the default TTL of Vault there, which is
// 32 days.
func leaseOfData(s *dependency.Secret, standard time.Duration) (lease, error) {
	if ttl, ok := number(s.Data, rotated); ok {
		if ttl <= 0 {
			return lease{}, errRotates
		}
		return lease{until: time.Now().Add(seconds(ttl) + time.Second)}, nil
	}
	length := time.Duration(0)
	if ttl, ok := number(s.Data, secretID); ok && ttl > 0 {
		length = seconds(ttl) + time.Second
	}
	if at, ok := number(s.Data, certificate); ok {
		length = min(time.Until(time.Unix(int64(at), 0)), maxLease)
	}
	if length <= 0 {
		length = standard
		if hint := seconds(s.LeaseDuration); hint > 0 {
			length = min(hint, standard)
		}
	}
	return newLease("", "", length), nil
}

// ending is a field with the end or the time to live of data, and another field that such data has.
type ending struct{ with, name string }

// The endings of data without a lease.
var (
	rotated     = ending{"rotation_period", "ttl"}
	secretID    = ending{"secret_id", "secret_id_ttl"}
	certificate = ending{"certificate", "expiration"}
)

// number returns the ending of data, if it has one that is a number.
func number(data map[string]any, e ending) (int, bool) {
	_, has := data[e.with]
	n, ok := data[e.name].(json.Number)
	if !has || !ok {
		return 0, false
	}
	i, err := n.Int64()
	return int(i), err == nil
}

// noNumbers reports whether data has the fields of an ending that is not a number.
func noNumbers(data map[string]any) bool {
	return slices.ContainsFunc([]ending{rotated, secretID, certificate}, func(e ending) bool {
		_, with := data[e.with]
		value, has := data[e.name]
		_, isNumber := value.(json.Number)
		return with && has && !isNumber
	})
}

// useUntil returns when a certificate must be replaced. It reports false if that is in the past.
func useUntil(text string) (time.Time, bool) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	until := cert.NotBefore.Add(part(min(cert.NotAfter.Sub(cert.NotBefore), maxLease), useOfLease))
	return until, time.Now().Before(until)
}

// kept returns the certificate that the template has rendered, if it can still be used. The file belongs to the task,
// whose rights the program has.
func (s *vaultSource) kept() (dependency.PemEncoded, bool) {
	text, err := s.files.read(s.query.file)
	if err != nil {
		return dependency.PemEncoded{}, false // another certificate is requested
	}
	out := parseCertificates(text)
	_, ok := useUntil(out.Cert)
	return out, ok && (out.Key != "" || !s.query.keyed)
}

// parseCertificates returns the first certificate, its key, and the certificates of authorities.
func parseCertificates(text []byte) (out dependency.PemEncoded) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		encoded := string(pem.EncodeToMemory(block))
		cert, err := x509.ParseCertificate(block.Bytes)
		switch {
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			out.Key = encoded
		case err != nil:
		case !cert.IsCA && out.Cert == "":
			out.Cert = encoded
		case cert.IsCA:
			if out.CA == "" {
				out.CA = encoded
			}
			if !out.CaChainContains(encoded) {
				out.CAChain = append(out.CAChain, encoded)
			}
		}
	}
	return out
}
