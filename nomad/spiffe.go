package nomad

import (
	"fmt"
	"strings"
	"time"
)

// The limits of SVIDs, which are the identity documents of SPIFFE (open-nomad only).
const (
	SpiffeDefaultTTL = time.Hour // also the maximum
	SpiffeMinTTL     = 10 * time.Second
	SpiffeMaxDNS     = 16
	// SpiffeMaxAudiences and SpiffeMaxAudience limit the audiences of a JWT-SVID and the bytes of each.
	SpiffeMaxAudiences = 8
	SpiffeMaxAudience  = 512
)

// SpiffeBundlePath is the path of the trust bundle in the HTTP API.
const SpiffeBundlePath = "/v1/spiffe/bundle"

// SpiffeSocketName is the name of the socket of the Workload API in the task's secrets directory.
const SpiffeSocketName = "spiffe.sock"

// maxSpiffeID is the limit of the SPIFFE specification for the bytes of an ID.
const maxSpiffeID = 2048

// TaskSpiffe requests the SPIFFE Workload API for a task (open-nomad only).
type TaskSpiffe struct {
	X509 bool
	JWT  bool
	TTL  time.Duration
	DNS  []string
}

// Lifetime returns the lifetime of an SVID.
func (s *TaskSpiffe) Lifetime() time.Duration {
	if s.TTL <= 0 || s.TTL > SpiffeDefaultTTL {
		return SpiffeDefaultTTL
	}
	return max(s.TTL, SpiffeMinTTL)
}

// UsesSpiffe reports whether a task of the job has a spiffe block.
func (j *Job) UsesSpiffe() bool {
	for _, tg := range j.TaskGroups {
		if tg.UsesSpiffe() {
			return true
		}
	}
	return false
}

// UsesSpiffe reports whether a task of the group has a spiffe block.
func (tg *TaskGroup) UsesSpiffe() bool {
	for _, t := range tg.Tasks {
		if t.Spiffe != nil {
			return true
		}
	}
	return false
}

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

// SpiffePath returns the path of the SPIFFE ID of a task:
//
//	/ns/<namespace>/job/<job>/group/<group>/task/<task>
//
// The job of a dispatched or periodic job is its parent. An error names the part that is not a valid
// segment of a path.
func SpiffePath(j *Job, group, task string) (string, error) {
	id := j.IdentityID()
	for _, part := range []struct{ kind, name string }{{"namespace", j.Namespace}, {"job", id}, {"group", group}, {"task", task}} {
		if !isSpiffeSegment(part.name) {
			return "", fmt.Errorf("%s %q cannot be part of a SPIFFE ID: use letters, digits, dots, hyphens and underscores, and not only dots", part.kind, part.name)
		}
	}
	return "/ns/" + j.Namespace + "/job/" + id + "/group/" + group + "/task/" + task, nil
}

// SpiffeID returns the SPIFFE ID of a task in a trust domain.
func SpiffeID(domain string, j *Job, group, task string) (string, error) {
	path, err := SpiffePath(j, group, task)
	if err != nil {
		return "", err
	}
	id := "spiffe://" + domain + path
	if len(id) > maxSpiffeID {
		return "", fmt.Errorf("the SPIFFE ID of task %q has %d bytes: the limit is %d", task, len(id), maxSpiffeID)
	}
	return id, nil
}

// isSpiffeSegment reports whether a name is a valid segment of the path of a SPIFFE ID.
func isSpiffeSegment(name string) bool {
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

// SpiffeAuthority is the public part of a signing authority of a trust domain: a CA certificate in DER
// and a key for JWT-SVIDs in PKIX DER with its ID.
type SpiffeAuthority struct {
	Certificate []byte
	JWTKeyID    string
	JWTKey      []byte
}
