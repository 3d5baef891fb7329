package cloud

import (
	"context"
	"errors"
)

// azure is the metadata service of Azure virtual machines.
var azure = service{
	name: "env_azure", endpoint: "http://169.254.169.254/metadata/instance/", env: "AZURE_ENV_URL",
	identify: identifyAzure, read: readAzure,
}

const (
	azureID    = "unique.platform.azure.id"
	azureQuery = "?api-version=2019-06-04&format=json"
)

// azureCompute is the document compute. Tags are not read: their text form is ambiguous.
type azureCompute struct {
	ID            string `json:"vmId"`
	Name          string `json:"name"`
	Location      string `json:"location"`
	ResourceGroup string `json:"resourceGroupName"`
	ScaleSet      string `json:"vmScaleSetName"`
	Size          string `json:"vmSize"`
	Zone          string `json:"zone"`
}

// azureNetwork is the document network.
type azureNetwork struct {
	Interface []struct {
		IPv4 azureAddresses `json:"ipv4"`
		IPv6 azureAddresses `json:"ipv6"`
		MAC  string         `json:"macAddress"`
	} `json:"interface"`
}

type azureAddresses struct {
	IPAddress []struct {
		Private string `json:"privateIpAddress"`
		Public  string `json:"publicIpAddress"`
	} `json:"ipAddress"`
}

// first returns the first private and public address, "" without one.
func (a azureAddresses) first() (private, public string) {
	if len(a.IPAddress) == 0 {
		return "", ""
	}
	return a.IPAddress[0].Private, a.IPAddress[0].Public
}

var azureMachine = field{attribute: azureID, parse: matching(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)}

func identifyAzure(ctx context.Context, s *source) error {
	s.header.Set("Metadata", "true")
	_, err := azureReadCompute(ctx, s)
	return err
}

// azureReadCompute reads the document compute and checks the machine's ID.
func azureReadCompute(ctx context.Context, s *source) (azureCompute, error) {
	var doc azureCompute
	if err := s.document(ctx, "compute"+azureQuery, &doc); err != nil {
		return doc, err
	}
	id, err := azureMachine.parsed(doc.ID)
	if err == nil && id == "" {
		err = errNoValue
	}
	return doc, err
}

func readAzure(ctx context.Context, s *source) (Facts, error) {
	doc, err := azureReadCompute(ctx, s)
	if err != nil {
		return Facts{}, err
	}
	var network azureNetwork
	if err := s.document(ctx, "network"+azureQuery, &network); err != nil && !errors.Is(err, errNoValue) {
		return Facts{}, err
	}
	attributes := map[string]string{}
	names := map[string]string{
		azureID: doc.ID, "unique.platform.azure.name": doc.Name,
		"platform.azure.location": doc.Location, "platform.azure.resource-group": doc.ResourceGroup,
		"platform.azure.scale-set": doc.ScaleSet, "platform.azure.vm-size": doc.Size, "platform.azure.zone": doc.Zone,
	}
	if err := addAll(attributes, names, plain); err != nil {
		return Facts{}, err
	}
	if err := network.add(attributes); err != nil {
		return Facts{}, err
	}
	return Facts{attributes, map[string]string{"azure": attributes[azureID]}}, nil
}

// add adds the addresses of the first interface.
func (n azureNetwork) add(attributes map[string]string) error {
	if len(n.Interface) == 0 {
		return nil
	}
	i := n.Interface[0]
	const prefix = "unique.platform.azure."
	private4, public4 := i.IPv4.first()
	private6, public6 := i.IPv6.first()
	return errors.Join(
		addAll(attributes, map[string]string{
			prefix + "local-ipv4": private4, prefix + "public-ipv4": public4,
			prefix + "local-ipv6": private6, prefix + "public-ipv6": public6,
		}, address),
		addAll(attributes, map[string]string{prefix + "mac": i.MAC}, hardware))
}
