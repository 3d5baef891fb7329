// Package apierror defines the errors of RPCs and of the HTTP API.
//
// An error crosses agents as text: Text and FromText convert it, and errors.Is and errors.As work on both sides. Sentinels
// are recognised by their texts, which clients of Nomad 2.0 match. A Coded error carries its HTTP status; HTTPStatus returns
// the status of any error. Hidden is what an error about a missing object adds if the caller may just not see it.
//
// The package imports no other package of the project.
package apierror

//lint:file-ignore ST1005 clients match the texts of these errors as they are

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Errors that clients match by their text, as in Nomad 2.0.
var (
	ErrNoLeader           = errors.New("No cluster leader")
	ErrNotReady           = errors.New("Not ready to serve consistent reads")
	ErrNoRegionPath       = errors.New("No path to region")
	ErrNoNodeConn         = errors.New("No path to node")
	ErrPermissionDenied   = errors.New("Permission denied")
	ErrTokenNotFound      = errors.New("ACL token not found")
	ErrTokenExpired       = errors.New("ACL token expired")
	ErrTokenInvalid       = errors.New("ACL token is invalid")
	ErrACLDisabled        = errors.New("ACL support disabled")
	ErrUnknownMethod      = errors.New("Unknown rpc method")     // for streams
	ErrNoMethod           = errors.New("rpc: can't find method") // also for an unknown service
	ErrMissingAllocID     = errors.New("Missing allocation ID")
	ErrNodeNotFound       = errors.New("node not found")
	ErrRegistrationClosed = errors.New("Job registration, dispatch, and scale are disabled by the scheduler configuration")
	ErrNodeSecret         = errors.New("node secret ID does not match")
	// ErrNodeHeld means that another running agent uses the same node ID.
	ErrNodeHeld = errors.New("node ID is in use by another agent")
	// ErrNodeSession means that the agent must register again before other calls.
	ErrNodeSession = errors.New("node session is not the current one")
)

// ErrIdentityExpired means that a signed identity or token was valid and has expired.
var ErrIdentityExpired = errors.New("token expired")

// Errors of ACL objects.
var (
	ErrACLBootstrapped        = errors.New("ACL bootstrap already done")
	ErrACLBootstrapReset      = errors.New("Invalid bootstrap reset index")
	ErrACLPolicyNotFound      = errors.New("ACL policy not found")
	ErrACLRoleNotFound        = errors.New("ACL role not found")
	ErrACLAuthMethodNotFound  = errors.New("ACL auth-method not found")
	ErrACLBindingRuleNotFound = errors.New("ACL binding rule not found")
)

// Errors of calls between agents.
var (
	// ErrUnsent and ErrNoStream mean that the call did not reach the server. It is safe to
	// repeat it, on the same or another server.
	ErrUnsent   = errors.New("rpc error: failed to get conn")
	ErrNoStream = errors.New("rpc error: failed to start stream")
	// ErrMaybeApplied means that the connection or the leader was lost after a write was
	// submitted. The write must not be repeated blindly.
	ErrMaybeApplied = errors.New("command may have been applied or not")
	// ErrLost means that the connection ended during a call. The call may have been
	// executed. Only reads may be repeated, on the same or another server.
	ErrLost = errors.New("rpc error: connection lost")
)

// codedPrefix is the prefix of an error that carries an HTTP status over RPC.
const codedPrefix = "RPC Error:: "

// Coded is an error with an HTTP status. Its text is the message without the status.
type Coded struct {
	Code    int
	Message string
}

func (e *Coded) Error() string { return e.Message }

// withStatus are the sentinels that errors.Is also matches in a Coded. They concern node identity and
// missing or disabled ACL objects.
var withStatus = []error{ErrNodeSecret, ErrNodeHeld, ErrTokenNotFound, ErrACLDisabled, ErrACLBootstrapped,
	ErrACLPolicyNotFound, ErrACLRoleNotFound,
	ErrACLAuthMethodNotFound, ErrACLBindingRuleNotFound}

// Is reports whether the message of e contains the text of the sentinel target.
func (e *Coded) Is(target error) bool {
	return slices.Contains(withStatus, target) && strings.Contains(e.Message, target.Error())
}

// Wire returns the form used in RPC replies: "RPC Error:: <code>,<message>".
func (e *Coded) Wire() string { return fmt.Sprintf("%s%d,%s", codedPrefix, e.Code, e.Message) }

// Errorf returns a Coded.
func Errorf(code int, format string, args ...any) error {
	return &Coded{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Denied returns an ErrPermissionDenied with a reason. Its text has the suffix that Nomad agents expect with
// status 403. format may contain %w.
func Denied(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args[:len(args):len(args)], ErrPermissionDenied)...)
}

// wireErrors are the sentinels that keep their identity over RPC. ErrMaybeApplied precedes the errors that
// allow a repeated call.
var wireErrors = []error{ErrMaybeApplied, ErrNoLeader, ErrNotReady, ErrNoRegionPath, ErrNoNodeConn, ErrPermissionDenied,
	ErrTokenNotFound, ErrTokenExpired, ErrTokenInvalid, ErrACLDisabled, ErrUnknownMethod, ErrNoMethod, ErrMissingAllocID,
	ErrNodeNotFound, ErrRegistrationClosed,
	ErrNodeSecret, ErrNodeHeld, ErrNodeSession, ErrUnsent, ErrNoStream, ErrLost,
	ErrACLBootstrapped, ErrACLBootstrapReset, ErrACLPolicyNotFound, ErrACLRoleNotFound, ErrACLAuthMethodNotFound, ErrACLBindingRuleNotFound}

// noServicePrefix is the prefix of the error about a method of an unknown service, as in Go's net/rpc.
const noServicePrefix = "rpc: can't find service "

// NoMethod returns the error about a method without a row, as in Go's net/rpc. It wraps ErrNoMethod. service
// reports whether the server has other methods of the same service.
func NoMethod(name string, service bool) error {
	if service {
		return fmt.Errorf("%w %s", ErrNoMethod, name)
	}
	return &remoteError{text: noServicePrefix + name, is: ErrNoMethod}
}

// Text returns the text that an RPC reply carries for err.
func Text(err error) string {
	var coded *Coded
	if errors.As(err, &coded) {
		return coded.Wire()
	}
	return err.Error()
}

// FromText is the inverse of Text. errors.Is and errors.As work on the result as on the original error.
func FromText(text string) error {
	if rest, ok := strings.CutPrefix(text, codedPrefix); ok {
		if code, msg, ok := strings.Cut(rest, ","); ok {
			if n, err := strconv.Atoi(code); err == nil {
				return &Coded{Code: n, Message: msg}
			}
		}
	}
	if e, ok := refusedFromText(text); ok {
		return e
	}
	if strings.HasPrefix(text, noServicePrefix) {
		return &remoteError{text: text, is: ErrNoMethod}
	}
	for _, e := range wireErrors {
		if strings.Contains(text, e.Error()) {
			return &remoteError{text: text, is: e}
		}
	}
	return errors.New(text)
}

// remoteError is an error with a fixed text, usually of another process, that wraps a sentinel of this package.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// hiddenText is the prefix of the text that Hidden returns.
const hiddenText = " (or your token lacks "

// Hidden returns a suffix for errors about missing objects whose lookup requires rights. The object may exist,
// but not be visible to a caller who has none of the rights in its namespace.
func Hidden(rights ...string) string {
	return hiddenText + strings.Join(rights, " or ") + " in its namespace)"
}

// CutHidden splits an error text into the part about the object and the suffix added by Hidden.
func CutHidden(text string) (thing, hidden string) {
	if i := strings.Index(text, hiddenText); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// UnknownAlloc is the 404 error for an allocation that does not exist in state.
func UnknownAlloc(id string) error { return Errorf(404, "%s %q", ErrUnknownAllocationPrefix, id) }

// UnknownNode is the 404 error for a node that does not exist in state.
func UnknownNode(id string) error { return Errorf(404, "%s %q", ErrUnknownNodePrefix, id) }

// UnknownJob is the 404 error for a job that does not exist in state.
func UnknownJob(id string) error { return Errorf(404, "%s %q", ErrUnknownJobPrefix, id) }

// UnknownEval is the 404 error for an evaluation that does not exist in state.
func UnknownEval(id string) error { return Errorf(404, "%s %q", ErrUnknownEvaluationPrefix, id) }

// UnknownDeployment is the 404 error for a deployment that does not exist in state.
func UnknownDeployment(id string) error {
	return Errorf(404, "%s %q", ErrUnknownDeploymentPrefix, id)
}

// The prefixes of errors about missing objects.
const (
	ErrUnknownAllocationPrefix = "Unknown allocation"
	ErrUnknownNodePrefix       = "Unknown node"
	ErrUnknownJobPrefix        = "Unknown job"
	ErrUnknownEvaluationPrefix = "Unknown evaluation"
	ErrUnknownDeploymentPrefix = "Unknown deployment"
)
