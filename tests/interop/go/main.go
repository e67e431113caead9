// Command suite asks a server for what go-amqp can ask for: a line of JSON for each case.
//
//	suite PORT
//	{"case": "...", "gives": "yes" | "no", "says": "..."}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

// How long a case may take; nothing waits so long when it works.
const caseTime = 30 * time.Second

// A client is one case's: its connection, and an address of its own.
type client struct {
	ctx     context.Context
	conn    *amqp.Conn
	session *amqp.Session
	address string
}

type testCase struct {
	name string
	run  func(*client) error
}

var cases = []testCase{
	{"settle_second", settleSecond},
	{"settle_second_outcomes", settleSecondOutcomes},
	{"dynamic_source", dynamicSource},
	{"dynamic_target", dynamicTarget},
	{"selector", selector},
	{"selector_in_reply", selectorInReply},
	{"bad_selector", badSelector},
	{"unknown_filter", unknownFilter},
	{"modified_annotations", modifiedAnnotations},
	{"undeliverable_here", undeliverableHere},
	{"released", released},
	{"durable_subscription", durableSubscription},
	{"shared_subscription", sharedSubscription},
	{"reserved_address", reservedAddress},
	{"large_message", largeMessage},
}

func dial(ctx context.Context, container, address string) (*client, error) {
	conn, err := amqp.Dial(ctx, "amqp://127.0.0.1:"+os.Args[1],
		&amqp.ConnOptions{ContainerID: container})
	if err != nil {
		return nil, err
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &client{ctx, conn, session, address}, nil
}

// send sends messages to an address and waits until the server has accepted them.
func (c *client) send(address string, messages ...*amqp.Message) error {
	sender, err := c.session.NewSender(c.ctx, address, nil)
	if err != nil {
		return err
	}
	for _, message := range messages {
		if err := sender.Send(c.ctx, message, nil); err != nil {
			return err
		}
	}
	return sender.Close(c.ctx)
}

func text(value string, properties map[string]any) *amqp.Message {
	return &amqp.Message{Value: value, ApplicationProperties: properties}
}

func (c *client) receiver(options *amqp.ReceiverOptions) (*amqp.Receiver, error) {
	return c.session.NewReceiver(c.ctx, c.address, options)
}

// next takes the message that is to come, and checks its value.
func (c *client) next(receiver *amqp.Receiver, expected string) (*amqp.Message, error) {
	message, err := receiver.Receive(c.ctx, nil)
	if err == nil && message.Value != expected {
		err = fmt.Errorf("%v comes where %v is expected", message.Value, expected)
	}
	return message, err
}

// accept takes messages that are to come in this order.
func (c *client) accept(receiver *amqp.Receiver, expected ...string) error {
	for _, each := range expected {
		message, err := c.next(receiver, each)
		if err == nil {
			err = receiver.AcceptMessage(c.ctx, message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused checks that an attach failed with a condition.
func refused(err error, condition amqp.ErrCond) error {
	var found *amqp.Error
	var link *amqp.LinkError
	if errors.As(err, &link) {
		found = link.RemoteErr
	}
	if found == nil && !errors.As(err, &found) {
		return fmt.Errorf("no refusal, but %v", err)
	}
	if found.Condition != condition {
		return fmt.Errorf("%v where %v is expected", found.Condition, condition)
	}
	return nil
}

func settleSecond(c *client) error {
	receiver, err := c.receiver(&amqp.ReceiverOptions{
		SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(), Credit: 10,
	})
	if err != nil {
		return err
	}
	if err := c.send(c.address, text("a", nil), text("b", nil)); err != nil {
		return err
	}
	// Accepting waits until the server has settled.
	return c.accept(receiver, "a", "b")
}

func settleSecondOutcomes(c *client) error {
	receiver, err := c.receiver(&amqp.ReceiverOptions{
		SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
	})
	if err != nil {
		return err
	}
	if err := c.send(c.address, text("a", nil), text("b", nil)); err != nil {
		return err
	}
	message, err := c.next(receiver, "a")
	if err == nil {
		err = receiver.ReleaseMessage(c.ctx, message)
	}
	if err == nil {
		message, err = c.next(receiver, "a")
	}
	if err == nil {
		err = receiver.RejectMessage(c.ctx, message, nil)
	}
	if err != nil {
		return err
	}
	return c.accept(receiver, "b")
}

func dynamicSource(c *client) error {
	receiver, err := c.receiver(&amqp.ReceiverOptions{DynamicAddress: true})
	if err != nil {
		return err
	}
	if err := c.send(receiver.Address(), text("a", nil)); err != nil {
		return err
	}
	return c.accept(receiver, "a")
}

func dynamicTarget(c *client) error {
	sender, err := c.session.NewSender(c.ctx, "", &amqp.SenderOptions{DynamicAddress: true})
	if err != nil {
		return err
	}
	if err := sender.Send(c.ctx, text("a", nil), nil); err != nil {
		return err
	}
	receiver, err := c.session.NewReceiver(c.ctx, sender.Address(), nil)
	if err != nil {
		return err
	}
	return c.accept(receiver, "a")
}

func selector(c *client) error {
	for _, color := range []string{"red", "blue", "red", "blue"} {
		if err := c.send(c.address, text(color, map[string]any{"color": color})); err != nil {
			return err
		}
	}
	blue, err := c.receiver(&amqp.ReceiverOptions{
		Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("color = 'blue'")},
	})
	if err != nil {
		return err
	}
	if err := c.accept(blue, "blue", "blue"); err != nil {
		return err
	}
	all, err := c.receiver(nil)
	if err != nil {
		return err
	}
	return c.accept(all, "red", "red")
}

// selectorInReply: the server's source names the filter that is in place (part 3.5.3).
func selectorInReply(c *client) error {
	receiver, err := c.receiver(&amqp.ReceiverOptions{
		Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("n > 1")},
	})
	if err != nil {
		return err
	}
	value := receiver.LinkSourceFilterValue("apache.org:selector-filter:string")
	if value != "n > 1" {
		return fmt.Errorf("the reply has the selector %v", value)
	}
	return nil
}

// refusedFilter: the refusal is a detach that follows the attach (part 2.6.3).
func (c *client) refusedFilter(filter amqp.LinkFilter, condition amqp.ErrCond) error {
	receiver, err := c.receiver(&amqp.ReceiverOptions{Filters: []amqp.LinkFilter{filter}})
	if err == nil {
		_, err = receiver.Receive(c.ctx, nil)
	}
	return refused(err, condition)
}

func badSelector(c *client) error {
	return c.refusedFilter(amqp.NewSelectorFilter("color = = 'blue'"), amqp.ErrCondInvalidField)
}

func unknownFilter(c *client) error {
	return c.refusedFilter(
		amqp.NewLinkFilter("example:filter", 0x468C0000FFFF, "x"), amqp.ErrCondNotImplemented)
}

func modifiedAnnotations(c *client) error {
	if err := c.send(c.address, text("a", nil)); err != nil {
		return err
	}
	receiver, err := c.receiver(nil)
	if err != nil {
		return err
	}
	message, err := c.next(receiver, "a")
	if err == nil {
		err = receiver.ModifyMessage(c.ctx, message, &amqp.ModifyMessageOptions{
			DeliveryFailed: true, Annotations: amqp.Annotations{"x-opt-why": "busy"},
		})
	}
	if err == nil {
		message, err = c.next(receiver, "a")
	}
	if err != nil {
		return err
	}
	if message.Annotations["x-opt-why"] != "busy" || message.Header.DeliveryCount != 1 {
		return fmt.Errorf("annotations %v, header %v", message.Annotations, message.Header)
	}
	return receiver.AcceptMessage(c.ctx, message)
}

func undeliverableHere(c *client) error {
	if err := c.send(c.address, text("a", nil), text("b", nil)); err != nil {
		return err
	}
	one, err := c.receiver(nil)
	if err != nil {
		return err
	}
	message, err := c.next(one, "a")
	if err == nil {
		err = one.ModifyMessage(c.ctx, message, &amqp.ModifyMessageOptions{UndeliverableHere: true})
	}
	if err == nil {
		err = c.accept(one, "b")
	}
	if err != nil {
		return err
	}
	other, err := c.receiver(nil)
	if err != nil {
		return err
	}
	return c.accept(other, "a")
}

func released(c *client) error {
	if err := c.send(c.address, text("a", nil), text("b", nil)); err != nil {
		return err
	}
	receiver, err := c.receiver(nil)
	if err != nil {
		return err
	}
	message, err := c.next(receiver, "a")
	if err == nil {
		err = receiver.ReleaseMessage(c.ctx, message)
	}
	if err != nil {
		return err
	}
	return c.accept(receiver, "a", "b")
}

func durableSubscription(c *client) error {
	options := &amqp.ReceiverOptions{
		Name: "sub", SourceCapabilities: []string{"topic"},
		SourceDurability: amqp.DurabilityUnsettledState, SourceExpiryPolicy: amqp.ExpiryPolicyNever,
	}
	address := "topic-" + c.address
	for _, sent := range []string{"", "a", "b"} {
		if sent != "" {
			if err := c.send(address, text(sent, nil)); err != nil {
				return err
			}
		}
		other, err := dial(c.ctx, c.address+"-durable", address)
		if err != nil {
			return err
		}
		receiver, err := other.receiver(options)
		if err == nil && sent != "" {
			err = other.accept(receiver, sent)
		}
		// The connection goes and the link is not closed: the subscription stays.
		other.conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func sharedSubscription(c *client) error {
	address := "topic-" + c.address
	links := []*amqp.Receiver{}
	for _, name := range []string{"sub|1", "sub|2"} {
		receiver, err := c.session.NewReceiver(c.ctx, address, &amqp.ReceiverOptions{
			Name: name, SourceCapabilities: []string{"topic", "shared"},
		})
		if err != nil {
			return err
		}
		links = append(links, receiver)
	}
	// Each has credit for one.
	if err := c.send(address, text("a", nil), text("a", nil)); err != nil {
		return err
	}
	for _, receiver := range links {
		if err := c.accept(receiver, "a"); err != nil {
			return err
		}
	}
	return nil
}

func reservedAddress(c *client) error {
	_, err := c.session.NewSender(c.ctx, "$management", nil)
	return refused(err, amqp.ErrCondNotFound)
}

func largeMessage(c *client) error {
	data := make([]byte, 2_000_000)
	for i := range data {
		data[i] = byte(i * 31)
	}
	if err := c.send(c.address, amqp.NewMessage(data)); err != nil {
		return err
	}
	receiver, err := c.receiver(nil)
	if err != nil {
		return err
	}
	message, err := receiver.Receive(c.ctx, nil)
	if err != nil {
		return err
	}
	if string(message.GetData()) != string(data) {
		return errors.New("other bytes come")
	}
	return receiver.AcceptMessage(c.ctx, message)
}

func run(each testCase) error {
	ctx, cancel := context.WithTimeout(context.Background(), caseTime)
	defer cancel()
	c, err := dial(ctx, "go-"+each.name, "go-"+each.name)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	return each.run(c)
}

func main() {
	for _, each := range cases {
		gives, says := "yes", ""
		if err := run(each); err != nil {
			gives, says = "no", err.Error()
		}
		line, _ := json.Marshal(map[string]string{"case": each.name, "gives": gives, "says": says})
		fmt.Println(string(line))
	}
}
