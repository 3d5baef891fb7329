// Package render is the protocol between the client and the program that renders the templates of a
// task (internal/render/engine). It also has the list of template functions that are refused.
//
//	client ── Request, as JSON, on stdin ──────────────▶ program
//	client ◀─ frames on stdout: content, missing, ... ── program
//
// A run of the program has one request: new templates or a new token need a new run. The program
// ends when its stdin is closed. It has no writable path: the client writes the files, so the
// client also decides whether a file has changed.
//
// A frame is one byte for its kind, four bytes (big endian) for the size of its body, and the body.
// The body of a content frame is the index of the template, four bytes, and the rendered text. All
// other bodies are JSON.
//
// With Request.Consul or Request.Vault, descriptor 2 of the program is a connection to the proxies of the agent
// (internal/readproxy), instead of /dev/null.
//
// The package starts no goroutine.
package render

import (
	"log/slog"
	"time"
)

// Limits of a run of the program.
const (
	// MaxContent is the maximum size of a rendered file.
	MaxContent = 16 << 20
	// MaxConsulAnswer is the maximum size of an answer of Consul. A longer one is cut.
	MaxConsulAnswer = 8 << 20
	// MaxMessage is the maximum size of the other frames.
	MaxMessage = 64 << 10
	// MaxNames is the maximum number of names in a Missing frame.
	MaxNames = 3
	// EvalLimit is the maximum duration of one evaluation of a template.
	EvalLimit = time.Minute
)

// Hosts of the requests on the connection of the program to the agent.
const (
	ConsulHost = "consul"
	VaultHost  = "vault"
)

// Environment returns the environment of the program: it uses one core and collects its garbage
// early.
func Environment() map[string]string {
	return map[string]string{"GOMAXPROCS": "1", "GOGC": "25", "GOMEMLIMIT": "40MiB"}
}

// Request is the input of the program.
type Request struct {
	Templates []Template
	Env       map[string]string // the environment of the task, for the function env
	Dir       string            // the task's directory: relative paths begin here
	Roots     []Root            // the directories that source and the function file can read
	Socket    string            // path of the Task API socket
	Token     Token
	Namespace string
	Region    string
	// Datacenter and NodeID are those of the node.
	Datacenter string
	NodeID     string
	Retry      Retry
	Consul     *Consul // nil: the functions of Consul read the native catalog and variables
	Vault      *Vault  // nil: the functions of Vault are refused
	NoVault    string  // why they are refused; "" is NoVaultClient
	// Kept is set if earlier content exists. Then no failure to read data ends the program.
	Kept bool
	// Once ends the program after all templates are rendered, even if their data can change.
	Once           bool
	Denied         []string // patterns of more functions to refuse
	MaxStale       time.Duration
	BlockQueryWait time.Duration
	EvalLimit      time.Duration // 0 is EvalLimit
	// Memory is the memory limit of the program until the first complete render, in bytes; 0 is none. Afterwards the program
	// shares the memory of the task, and can only notice the limit when it is killed.
	Memory int64
}

// Consul configures reads from Consul.
type Consul struct {
	Retry Retry
	Node  string // the name of the node in Consul, for the function node without an argument; "" if it is unknown
}

// Vault configures requests to Vault.
type Vault struct {
	Retry        Retry
	DefaultLease time.Duration // of secrets without a lease
	Namespace    string        // of the requests, which the agent sets; the library needs it for the paths of mounts
}

// Reads reports whether the program has a connection to the proxies of the agent.
func (r *Request) Reads() bool { return r.Consul != nil || r.Vault != nil }

// Template is a template of a Request. Its index in the request identifies it.
type Template struct {
	Text              string
	Source            string // path of the text, if Text is empty
	LeftDelim         string // "" is "{{"
	RightDelim        string // "" is "}}"
	ErrorOnMissingKey bool
	Once              bool   // rendered once, even if its data changes
	Destination       string // path of the file, for pkiCert
	Kept              bool   // the file has content of the same template
	Wait              Wait
}

// Wait is how long rendering waits for data to settle: Min after the latest change, but at most Max
// after the first one. A zero Min disables it.
type Wait struct{ Min, Max time.Duration }

// Retry configures how failed reads are repeated: after Backoff, doubled each time, up to
// MaxBackoff, or 10 minutes if it is 0.
type Retry struct {
	Attempts   int // 0 is unlimited
	Backoff    time.Duration
	MaxBackoff time.Duration
}

// maxBackoff is the MaxBackoff of a Retry that has none.
const maxBackoff = 10 * time.Minute

// Delay returns the delay after the nth failure in a row.
func (r Retry) Delay(n int) time.Duration {
	limit := r.MaxBackoff
	if limit <= 0 {
		limit = maxBackoff
	}
	wait := r.Backoff
	for i := 1; i < n && wait < limit; i++ {
		wait *= 2
	}
	return min(wait, limit)
}

// Spent reports whether no attempt is left after the nth failure in a row.
func (r Retry) Spent(n int) bool { return r.Attempts > 0 && n > r.Attempts }

// Root is a directory that templates can read.
type Root struct {
	Path  string   // of the host
	Names []string // other absolute paths of it, such as the task's view
}

// Token is the task's identity. It cannot be printed.
type Token string

// String hides the token.
func (Token) String() string { return "token" }

// GoString hides the token from %#v.
func (Token) GoString() string { return "token" }

// LogValue hides the token from logs.
func (Token) LogValue() slog.Value { return slog.StringValue("token") }
