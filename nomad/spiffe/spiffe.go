// Package spiffe has the names and limits of SPIFFE identities (open-nomad only): the trust domain of a region, the IDs of
// tasks below it, and the paths where workloads and verifiers find keys.
//
// Package trustbundle encodes the public keys of a trust domain, package svid issues the documents, and TaskSpiffe of package
// nomad is what a job requests. The package keeps no state and starts no goroutine.
package spiffe

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// The limits of SVIDs, which are the identity documents of SPIFFE.
const (
	// MaxDNS limits the DNS names of an X.509-SVID.
	MaxDNS = 16
	// MaxAudiences and MaxAudience limit the audiences of a JWT-SVID and the bytes of each.
	MaxAudiences = 8
	MaxAudience  = 512
)

// BundlePath is the path of the trust bundle in the HTTP API.
const BundlePath = "/v1/spiffe/bundle"

// SocketName is the name of the socket of the Workload API in the task's secrets directory.
const SocketName = "spiffe.sock"

// maxID is the limit of the SPIFFE specification for the bytes of an ID.
const maxID = 2048

// CheckTrustDomain returns an error unless the name is a valid SPIFFE trust domain.
func CheckTrustDomain(name string) error {
	if name == "" || len(name) > 255 {
		return fmt.Errorf("trust domain %q has %d bytes: use 1 to 255", name, len(name))
	}
	for _, c := range []byte(name) {
		if !isLower(c) && !isDigit(c) && c != '.' && c != '-' && c != '_' {
			return fmt.Errorf("trust domain %q contains %q: use lower case letters, digits, dots, hyphens and underscores", name, c)
		}
	}
	return nil
}

// Path returns the path of the SPIFFE ID of a task:
//
//	/ns/<namespace>/job/<job>/group/<group>/task/<task>
//
// The job of a dispatched or periodic job is its parent. An error names the part that is not a valid
// segment of a path.
func Path(j *nomad.Job, group, task string) (string, error) {
	id := j.IdentityID()
	for _, part := range []struct{ kind, name string }{{"namespace", j.Namespace}, {"job", id}, {"group", group}, {"task", task}} {
		if !isSegment(part.name) {
			return "", fmt.Errorf("%s %q cannot be part of a SPIFFE ID: use letters, digits, dots, hyphens and "+
				"underscores, and not only dots", part.kind, part.name)
		}
	}
	return "/ns/" + j.Namespace + "/job/" + id + "/group/" + group + "/task/" + task, nil
}

// ID returns the SPIFFE ID of a task in a trust domain.
func ID(domain string, j *nomad.Job, group, task string) (string, error) {
	path, err := Path(j, group, task)
	if err != nil {
		return "", err
	}
	id := "spiffe://" + domain + path
	if len(id) > maxID {
		return "", fmt.Errorf("the SPIFFE ID of task %q has %d bytes: the limit is %d", task, len(id), maxID)
	}
	return id, nil
}

// isSegment reports whether a name is a valid segment of the path of a SPIFFE ID.
func isSegment(name string) bool {
	if name == "" || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		if !isLower(c) && !isDigit(c) && (c < 'A' || c > 'Z') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Below reports whether a DNS name is one of the suffixes or below one of them.
func Below(name string, suffixes []string) bool {
	for _, s := range suffixes {
		if name == s || strings.HasSuffix(name, "."+s) {
			return true
		}
	}
	return false
}

// Authority is the public part of a signing authority of a trust domain: a CA certificate in DER
// and a key for JWT-SVIDs in PKIX DER with its ID.
type Authority struct {
	Certificate []byte
	JWTKeyID    string
	JWTKey      []byte
}
