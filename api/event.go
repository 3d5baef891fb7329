package api

import (
	"encoding/json"
	"fmt"

	"github.com/open-nomad/open-nomad/api/workload"
)

// Topic is the kind of object of an event.
type Topic string

// Topics of events. TopicAll means all topics.
const (
	TopicDeployment     Topic = "Deployment"
	TopicEvaluation     Topic = "Evaluation"
	TopicAllocation     Topic = "Allocation"
	TopicJob            Topic = "Job"
	TopicNode           Topic = "Node"
	TopicNodePool       Topic = "NodePool"
	TopicService        Topic = "Service"
	TopicVariable       Topic = "Variable"
	TopicACLPolicy      Topic = "ACLPolicy"
	TopicACLToken       Topic = "ACLToken"
	TopicACLRole        Topic = "ACLRole"
	TopicACLAuthMethod  Topic = "ACLAuthMethod"
	TopicACLBindingRule Topic = "ACLBindingRule"
	TopicAll            Topic = "*"
)

// Events are the events of one Raft log entry. An empty Events is a heartbeat. If Err is
// set, the other fields are empty and the stream has ended.
type Events struct {
	Index  uint64
	Events []Event
	Err    error `json:"-"`
}

// IsHeartbeat reports whether e is a heartbeat, without events and error.
func (e *Events) IsHeartbeat() bool { return e.Index == 0 && len(e.Events) == 0 && e.Err == nil }

// Event contains an object as of the Raft log entry at Index. Methods such as Job and
// Allocation decode the object.
type Event struct {
	Topic      Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    map[string]any
}

// Job returns the job of the event, or nil if its payload is not a job.
func (e *Event) Job() (*workload.Job, error) { return inEvent[workload.Job](e, "Job") }

// Evaluation returns the evaluation of the event, or nil if its payload is not an evaluation.
func (e *Event) Evaluation() (*Evaluation, error) { return inEvent[Evaluation](e, "Evaluation") }

// Allocation returns the allocation of the event, without its job. It returns nil if the
// payload is not an allocation.
func (e *Event) Allocation() (*Allocation, error) { return inEvent[Allocation](e, "Allocation") }

// Deployment returns the deployment of the event, or nil if its payload is not a deployment.
func (e *Event) Deployment() (*Deployment, error) { return inEvent[Deployment](e, "Deployment") }

// Node returns the node of the event, or nil if its payload is not a node.
func (e *Event) Node() (*Node, error) { return inEvent[Node](e, "Node") }

// NodePool returns the node pool of the event, or nil if its payload is not a node pool.
func (e *Event) NodePool() (*NodePool, error) { return inEvent[NodePool](e, "NodePool") }

// inEvent decodes one object of the payload.
func inEvent[T any](e *Event, name string) (*T, error) {
	thing, ok := e.Payload[name]
	if !ok {
		return nil, nil
	}
	text, err := json.Marshal(thing)
	if err != nil {
		return nil, fmt.Errorf("decode %s of event: %w", name, err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("decode %s of event: %w", name, err)
	}
	return out, nil
}
