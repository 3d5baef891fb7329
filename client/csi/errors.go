package csi

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// maxText limits the bytes of a plugin's text in errors and conditions.
const maxText = 512

// Error is a failed call of a plugin. Its text is shortened and has no secret or mount flag of the request.
type Error struct {
	// Code is what the plugin answered. It is codes.DeadlineExceeded for a call that reached its limit, and codes.DataLoss for
	// an answer that is not valid.
	Code  codes.Code
	text  string
	cause error
}

// Error returns the text.
func (e *Error) Error() string { return e.text }

// Unwrap returns the error of the context that ended the call, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Code returns the code of a failed call, or codes.Unknown for another error.
func Code(err error) codes.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return codes.Unknown
}

// service is a service of a plugin, as texts name it. "" is the service Identity.
type service string

const (
	controllerService service = "controller"
	nodeService       service = "node"
)

// subject is what the texts of a call name.
type subject struct{ volume, other string }

// texts are what the codes of a call mean. A text has the verbs %[1]q for the volume and %[2]q for the node or path.
type texts map[codes.Code]string

var (
	attachTexts = texts{
		codes.NotFound: "volume %[1]q or node %[2]q could not be found",
		codes.AlreadyExists: "volume %[1]q is already published at node %[2]q but with capabilities or a read_only setting " +
			"incompatible with this request",
		codes.ResourceExhausted:  "node %[2]q has reached the maximum allowable number of attached volumes",
		codes.FailedPrecondition: "volume %[1]q is already published on another node and does not have MULTI_NODE volume capability",
	}
	validateTexts = texts{codes.NotFound: "volume %[1]q could not be found"}
	createTexts   = texts{
		codes.InvalidArgument:   "volume %[1]q snapshot source %[2]q is not compatible with these parameters",
		codes.NotFound:          "volume %[1]q content source %[2]q does not exist",
		codes.AlreadyExists:     "volume %[1]q already exists but is incompatible with these parameters",
		codes.ResourceExhausted: "unable to provision %[1]q in accessible_topology",
		codes.OutOfRange:        "unsupported capacity_range for volume %[1]q",
	}
	deleteTexts = texts{codes.FailedPrecondition: "volume %[1]q is in use"}
	expandTexts = texts{
		codes.NotFound:           "volume %[1]q could not be found",
		codes.FailedPrecondition: "volume %[1]q cannot be expanded online",
		codes.OutOfRange:         "unsupported capacity_range for volume %[1]q",
	}
	createSnapshotTexts = texts{
		codes.AlreadyExists: "snapshot %[1]q already exists but is incompatible with volume %[2]q",
		codes.Aborted:       "snapshot %[1]q has a pending operation",
	}
	deleteSnapshotTexts = texts{
		codes.FailedPrecondition: "snapshot %[1]q could not be deleted because it is in use",
		codes.Aborted:            "snapshot %[1]q has a pending operation",
	}
	stageTexts = texts{
		codes.NotFound:           "volume %[1]q could not be found",
		codes.AlreadyExists:      "volume %[1]q is already staged to %[2]q but with incompatible capabilities for this request",
		codes.FailedPrecondition: "volume %[1]q does not have MULTI_NODE volume capability",
	}
	publishTexts = texts{
		codes.NotFound:           "volume %[1]q could not be found",
		codes.AlreadyExists:      "volume %[1]q is already published at target path %[2]q but with incompatible capabilities for this request",
		codes.FailedPrecondition: "volume %[1]q does not have MULTI_NODE volume capability",
	}
	nodeExpandTexts = texts{
		codes.FailedPrecondition: "volume %[1]q cannot be expanded while in use",
		codes.OutOfRange:         "unsupported capacity_range for volume %[1]q",
	}
)

// failure converts the error of a call. The redacted answer of the plugin is the end of its text.
func (c *call) failure(err error) *Error {
	st := status.Convert(err)
	text := fmt.Sprintf("rpc error: code = %s desc = %s", st.Code(), c.shown(st.Message()))
	format, known := c.texts[st.Code()]
	switch {
	case tooLarge(err):
		text = fmt.Sprintf("the answer of the plugin to %s is larger than %d MiB", c.name, maxAnswer>>20)
	case st.Code() == codes.Internal && c.service != "":
		text = string(c.service) + " plugin returned an internal error, check the plugin allocation logs for more information: " + text
	case known:
		text = fmt.Sprintf(format+": %[3]s", short(c.subject.volume), short(c.subject.other), text)
	}
	return &Error{Code: st.Code(), text: text}
}

// short returns an ID or path for a message.
func short(text string) string { return untrusted.Shorten(text, maxText) }
