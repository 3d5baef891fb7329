package nomad

//lint:file-ignore ST1005 clients match the texts of these errors as they are

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Errors that clients match by their text (compat/wire.md section 10).
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
	ErrUnknownMethod      = errors.New("Unknown rpc method") // of a stream
	ErrNoMethod           = errors.New("rpc: can't find method")
	ErrMissingAllocID     = errors.New("Missing allocation ID")
	ErrNodeNotFound       = errors.New("node not found")
	ErrRegistrationClosed = errors.New("Job registration, dispatch, and scale are disabled by the scheduler configuration")
	ErrNodeSecret         = errors.New("node secret ID does not match")
	// ErrNodeHeld means that another living agent presents the same node ID.
	ErrNodeHeld = errors.New("node ID is in use by another agent")
	// ErrNodeSession means that the agent must register before it is heard.
	ErrNodeSession = errors.New("node session is not the current one")
)

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
	// ErrUnsent and ErrNoStream mean that the server that was called knows nothing of
	// the call: it may be made again, there or elsewhere.
	ErrUnsent   = errors.New("rpc error: failed to get conn")
	ErrNoStream = errors.New("rpc error: failed to start stream")
	// ErrMaybeApplied means that a write was handed over, and then the connection or
	// the leader was lost: it must not be sent again blindly.
	ErrMaybeApplied = errors.New("command may have been applied or not")
	// ErrLost means that the connection ended during a call, so that it may have been
	// taken or not: what only reads may be asked again, there or elsewhere.
	ErrLost = errors.New("rpc error: connection lost")
)

// codedPrefix begins an error that carries an HTTP status over RPC.
const codedPrefix = "RPC Error:: "

// CodedError is an error with an HTTP status. Its text is the whole message
// without the status.
type CodedError struct {
	Code    int
	Message string
}

func (e *CodedError) Error() string { return e.Message }

// withStatus are the sentinels that keep their identity with a status, too: who a node
// is, and what there is not.
var withStatus = []error{ErrNodeSecret, ErrNodeHeld, ErrTokenNotFound, ErrACLDisabled, ErrACLBootstrapped, ErrACLPolicyNotFound, ErrACLRoleNotFound,
	ErrACLAuthMethodNotFound, ErrACLBindingRuleNotFound}

// Is says that such an error is the sentinel that it was made of.
func (e *CodedError) Is(target error) bool {
	return slices.Contains(withStatus, target) && strings.Contains(e.Message, target.Error())
}

// Wire returns the form that travels over RPC: "RPC Error:: <code>,<message>".
func (e *CodedError) Wire() string { return fmt.Sprintf("%s%d,%s", codedPrefix, e.Code, e.Message) }

// Errorf makes a CodedError.
func Errorf(code int, format string, args ...any) error {
	return &CodedError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Denied is an ErrPermissionDenied that says why. Its text ends as agents of upstream expect it
// of an answer with status 403; format takes %w, too.
func Denied(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args[:len(args):len(args)], ErrPermissionDenied)...)
}

// wireErrors are the sentinels that keep their identity over RPC. That of a call that may
// have been done comes before those that let it be made again.
var wireErrors = []error{ErrMaybeApplied, ErrNoLeader, ErrNotReady, ErrNoRegionPath, ErrNoNodeConn, ErrPermissionDenied,
	ErrTokenNotFound, ErrTokenExpired, ErrTokenInvalid, ErrACLDisabled, ErrUnknownMethod, ErrNoMethod, ErrMissingAllocID, ErrNodeNotFound, ErrRegistrationClosed,
	ErrNodeSecret, ErrNodeHeld, ErrNodeSession, ErrUnsent, ErrNoStream, ErrLost,
	ErrACLBootstrapped, ErrACLBootstrapReset, ErrACLPolicyNotFound, ErrACLRoleNotFound, ErrACLAuthMethodNotFound, ErrACLBindingRuleNotFound}

// ErrorText is what an RPC reply carries for err.
func ErrorText(err error) string {
	var coded *CodedError
	if errors.As(err, &coded) {
		return coded.Wire()
	}
	return err.Error()
}

// ErrorFromText is the inverse of ErrorText: errors.Is and errors.As work on
// what it returns as they did on the other side.
func ErrorFromText(text string) error {
	if rest, ok := strings.CutPrefix(text, codedPrefix); ok {
		if code, msg, ok := strings.Cut(rest, ","); ok {
			if n, err := strconv.Atoi(code); err == nil {
				return &CodedError{Code: n, Message: msg}
			}
		}
	}
	for _, e := range wireErrors {
		if strings.Contains(text, e.Error()) {
			return &remoteError{text: text, is: e}
		}
	}
	return errors.New(text)
}

// remoteError is an error of another process that holds a known sentinel.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// hiddenText begins what Hidden adds.
const hiddenText = " (or your token lacks "

// Hidden is what the errors for things that there are not add where callers need rights:
// the thing may be there, and hidden from who has none of these in its namespace.
func Hidden(rights ...string) string {
	return hiddenText + strings.Join(rights, " or ") + " in its namespace)"
}

// CutHidden splits an error text into what it says of the thing and what Hidden added.
func CutHidden(text string) (thing, hidden string) {
	if i := strings.Index(text, hiddenText); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// UnknownAlloc, UnknownNode, UnknownJob, UnknownEval and UnknownDeployment are
// the 404 errors for objects that state does not hold.
func UnknownAlloc(id string) error { return Errorf(404, "%s %q", ErrUnknownAllocationPrefix, id) }

// UnknownNode is the error for a node that state does not hold.
func UnknownNode(id string) error { return Errorf(404, "%s %q", ErrUnknownNodePrefix, id) }

// UnknownJob is the error for a job that state does not hold.
func UnknownJob(id string) error { return Errorf(404, "%s %q", ErrUnknownJobPrefix, id) }

// UnknownEval is the error for an evaluation that state does not hold.
func UnknownEval(id string) error { return Errorf(404, "%s %q", ErrUnknownEvaluationPrefix, id) }

// UnknownDeployment is the error for a deployment that state does not hold.
func UnknownDeployment(id string) error {
	return Errorf(404, "%s %q", ErrUnknownDeploymentPrefix, id)
}

// How the errors for unknown objects begin.
const (
	ErrUnknownAllocationPrefix = "Unknown allocation"
	ErrUnknownNodePrefix       = "Unknown node"
	ErrUnknownJobPrefix        = "Unknown job"
	ErrUnknownEvaluationPrefix = "Unknown evaluation"
	ErrUnknownDeploymentPrefix = "Unknown deployment"
)
