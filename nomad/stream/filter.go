package stream

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// everyKey, among the keys of a topic, matches all of its events.
const everyKey = "*"

// known are the valid topics. The text, if any, is the feature that this version does not have.
var known = map[message.Topic]string{
	message.TopicDeployment:     "",
	message.TopicEvaluation:     "",
	message.TopicAllocation:     "",
	message.TopicJob:            "",
	message.TopicNode:           "",
	message.TopicNodePool:       "",
	message.TopicVariable:       "",
	message.TopicACLPolicy:      "",
	message.TopicACLToken:       "",
	message.TopicACLRole:        "",
	message.TopicACLAuthMethod:  "",
	message.TopicACLBindingRule: "",
	message.TopicService:        "",
	message.TopicHostVolume:     "",
	message.TopicCSIVolume:      "",
	message.TopicCSIPlugin:      "",
	message.TopicAll:            "",
	message.TopicOperator:       "records of utilization",
}

// maxKeys is the maximum number of keys of a filter. Each event is compared with all of them.
const maxKeys = 1000

// Filter selects the events that a reader requested.
type Filter struct {
	topics    map[message.Topic][]string
	namespace string
}

// NewFilter returns a filter for topics and their keys, in one namespace or in all. Without topics
// it selects all of them.
func NewFilter(topics map[message.Topic][]string, namespace string) (Filter, error) {
	f := Filter{topics: map[message.Topic][]string{}, namespace: namespace}
	n := 0
	for topic, keys := range topics {
		if n += len(keys); n > maxKeys {
			return Filter{}, apierror.Errorf(400, "more than %d keys of topics: use * for all events of a topic", maxKeys)
		}
		missing, ok := known[topic]
		switch {
		case !ok:
			return Filter{}, apierror.Errorf(400, "unknown topic %q, want one of %q", untrusted.Shorten(string(topic), 64),
				slices.Sorted(maps.Keys(known)))
		case missing != "":
			return Filter{}, apierror.Errorf(501, "topic %s: %s are not part of this version", topic, missing)
		case len(keys) == 0:
			keys = []string{everyKey}
		}
		f.topics[topic] = keys
	}
	if len(f.topics) == 0 {
		f.topics[message.TopicAll] = []string{everyKey}
	}
	return f, nil
}

// Topics returns the requested topics, sorted.
func (f Filter) Topics() []message.Topic { return slices.Sorted(maps.Keys(f.topics)) }

// Matches reports whether the filter selects the event.
func (f Filter) Matches(e *Event) bool {
	if e.Namespace != "" && f.namespace != nomad.AllNamespacesSentinel && f.namespace != e.Namespace {
		return false
	}
	return e.hasOne(f.topics[e.Topic]) || e.hasOne(f.topics[message.TopicAll])
}

// hasOne reports whether one of the keys is a key of the event or of a related object.
func (e *Event) hasOne(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == everyKey || k == e.Key || slices.Contains(e.FilterKeys, k)
	})
}
