package web

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// reasonHeader in a request asks why its caller is allowed or refused. The reply has the
// explanation in the same header, in one line.
const reasonHeader = "X-Nomad-Acl-Reason"

// Bounds of an explanation.
const (
	maxReason     = 2 << 10
	maxReasonBody = 4 << 20 // of a request body that is read for an explanation
)

// tellReason sets the reason header of the reply. The header holds nothing that /v1/acl/explain
// would not return to this caller. The body is read for the explanation and put back.
func (s *Server) tellReason(r *Request, rt *Route) error {
	asked := &DryRun{Method: r.Method, Path: r.URL.RequestURI()}
	if s.readsFor(rt) && r.Body != nil {
		text, err := io.ReadAll(http.MaxBytesReader(r.Reply, r.Body, maxReasonBody))
		if err != nil {
			return cmp.Or(BodyFault(err), err)
		}
		asked.Body, r.Body = text, io.NopCloser(bytes.NewReader(text))
	}
	s.setReason(r, func(q *message.ACLExplainRequest) error { return r.QuestionOf(asked, q) })
	return nil
}

// setReason sets the reason header to the answer to a question about the caller.
func (s *Server) setReason(r *Request, fill func(*message.ACLExplainRequest) error) {
	q, out := &message.ACLExplainRequest{}, new(message.ACLExplainResponse)
	q.Region, q.AuthToken, q.AllowStale = r.Region(), r.Token(), true
	err := fill(q)
	if err == nil {
		err = s.cfg.RPC.Call(r.Context(), "ACL.Explain", q, out)
	}
	text := reasonText(out)
	if err != nil {
		text = err.Error()
	}
	r.Reply.Header().Set(reasonHeader, headerText(text))
}

// readsFor reports whether the body may be read for an explanation. This requires that the rights
// of the caller were checked first.
func (s *Server) readsFor(rt *Route) bool {
	_, early := s.methods[rt.Call.Method].Early()
	return !rt.Unbounded && rt.Call.Method != "" && (!s.cfg.ACL || early)
}

// reasonText formats an explanation as one line.
func reasonText(out *message.ACLExplainResponse) string {
	var parts []string
	for _, a := range out.Answers {
		for _, d := range a.Decisions {
			verdict := "refused"
			if d.Allowed {
				verdict = "allowed"
			}
			part := fmt.Sprintf("%s: %s: %s", d.Question, verdict, d.Reason)
			for _, rule := range d.Rules {
				part += fmt.Sprintf("; policy %q, line %d, column %d: %s: %s", rule.Policy, rule.Line, rule.Column, rule.Block,
					cmp.Or(rule.Text, "no rights set"))
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "allowed for everybody"
	}
	return strings.Join(parts, " | ")
}

// headerText replaces the characters that a header cannot contain, and truncates long texts.
func headerText(text string) string {
	return untrusted.Shorten(strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text), maxReason)
}
