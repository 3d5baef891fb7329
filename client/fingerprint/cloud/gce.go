package cloud

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// gce is the metadata service of Google Compute Engine.
var gce = service{
	name: "env_gce", endpoint: "http://169.254.169.254/computeMetadata/v1/instance/", env: "GCE_ENV_URL",
	identify: identifyGCE, read: readGCE,
}

// gceHeader and gceValue mark the requests to the service, and its replies.
const (
	gceHeader = "Metadata-Flavor"
	gceValue  = "Google"
)

const (
	gceID = "unique.platform.gce.id"
	// gceMaxTags and gceMaxInterfaces are above the limits of the provider.
	gceMaxTags       = 64
	gceMaxInterfaces = 16
	gceMaxExternal   = 16
)

var gceInstance = field{"id", gceID, matching(`^[0-9]{1,20}$`)}

var gceFields = []field{
	gceInstance,
	{"hostname", "unique.platform.gce.hostname", word},
	{"cpu-platform", "platform.gce.cpu-platform", plain},
	{"machine-type", "platform.gce.machine-type", last},
	{"zone", "platform.gce.zone", last},
	{"scheduling/automatic-restart", "platform.gce.scheduling.automatic-restart", matching(`^[A-Za-z]+$`)},
	{"scheduling/on-host-maintenance", "platform.gce.scheduling.on-host-maintenance", matching(`^[A-Za-z]+$`)},
}

func identifyGCE(ctx context.Context, s *source) error {
	s.header.Set(gceHeader, gceValue)
	s.replyHeader, s.replyValue = gceHeader, gceValue
	return identified(ctx, s, gceInstance)
}

func readGCE(ctx context.Context, s *source) (Facts, error) {
	attributes, err := s.values(ctx, gceFields)
	if err != nil {
		return Facts{}, err
	}
	if err := errors.Join(gceTags(ctx, s, attributes), gceNetworks(ctx, s, attributes)); err != nil {
		return Facts{}, err
	}
	return Facts{attributes, map[string]string{"gce": attributes[gceID]}}, nil
}

// gceTags adds an attribute per network tag.
func gceTags(ctx context.Context, s *source, attributes map[string]string) error {
	var tags []string
	if err := s.document(ctx, "tags", &tags); err != nil && !errors.Is(err, errNoValue) {
		return err
	}
	if len(tags) > gceMaxTags {
		return fmt.Errorf("more than %d tags", gceMaxTags)
	}
	for _, tag := range tags {
		name, err := word(tag)
		if err != nil || len(name) > maxValue {
			return errors.New("a tag is not a name")
		}
		attributes["platform.gce.tag."+name] = "true"
	}
	return nil
}

// gceInterface is an element of network-interfaces.
type gceInterface struct {
	Network       string `json:"network"` // projects/<number>/networks/<name>
	IP            string `json:"ip"`
	AccessConfigs []struct {
		ExternalIP string `json:"externalIp"`
	} `json:"accessConfigs"`
}

// gceNetworks adds attributes per network interface.
func gceNetworks(ctx context.Context, s *source, attributes map[string]string) error {
	var interfaces []gceInterface
	if err := s.document(ctx, "network-interfaces/?recursive=true", &interfaces); err != nil && !errors.Is(err, errNoValue) {
		return err
	}
	if len(interfaces) > gceMaxInterfaces {
		return fmt.Errorf("more than %d network interfaces", gceMaxInterfaces)
	}
	for _, i := range interfaces {
		name, err := field{attribute: "platform.gce.network", parse: last}.parsed(i.Network)
		if err != nil {
			return err
		}
		if name == "" || len(i.AccessConfigs) > gceMaxExternal {
			return errors.New("a network interface has no network, or too many addresses")
		}
		attributes["platform.gce.network."+name] = "true"
		prefix := "unique.platform.gce.network." + name
		addresses := map[string]string{prefix + ".ip": i.IP}
		for n, a := range i.AccessConfigs {
			addresses[prefix+".external-ip."+strconv.Itoa(n)] = a.ExternalIP
		}
		if err := addAll(attributes, addresses, address); err != nil {
			return err
		}
	}
	return nil
}

// addAll adds the valid values of texts to the attributes.
func addAll(attributes, texts map[string]string, parse func(string) (string, error)) error {
	for name, text := range texts {
		v, err := field{attribute: name, parse: parse}.parsed(text)
		if err != nil {
			return err
		}
		if v != "" {
			attributes[name] = v
		}
	}
	return nil
}
