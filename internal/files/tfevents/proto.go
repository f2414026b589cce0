package tfevents

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The parts of event.proto and summary.proto that are written, with their field numbers:
//
//	Event         wall_time 1 (double), step 2 (int64), file_version 3, summary 5, session_log 7
//	SessionLog    status 1 (1: start)
//	Summary       value 1 (repeated)
//	Summary.Value tag 1, simple_value 2 (float), tensor 8, metadata 9
//
// The settings of a run are a value without a number whose metadata hold, for the plugin "hparams" (plugin_data.proto,
// struct.proto):
//
//	SummaryMetadata    plugin_data 1
//	PluginData         plugin_name 1, content 2
//	HParamsPluginData  session_start_info 3
//	SessionStartInfo   hparams 1 (map: key 1, value 2), start_time_secs 5 (double)
//	protobuf.Value     number_value 2 (double), string_value 3, bool_value 4
const statusStart = 1

// emptyTensor is the value of a summary that has only metadata: float, shape [0].
var emptyTensor = []byte{0x08, 0x01, 0x12, 0x02, 0x12, 0x00}

func appendBytes[T string | []byte](b []byte, field protowire.Number, v T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), []byte(v))
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

// encode returns the protocol buffer of e.
func (e *Event) encode() []byte {
	b := appendDouble(nil, 1, e.seconds())
	if e.Step != 0 {
		b = appendVarint(b, 2, uint64(e.Step))
	}
	if e.FileVersion != "" {
		return appendBytes(b, 3, e.FileVersion)
	}
	if e.Start {
		return appendBytes(b, 7, appendVarint(nil, 1, statusStart))
	}
	value := appendBytes(nil, 1, e.Tag)
	if e.HParams != nil {
		value = appendBytes(appendBytes(value, 8, emptyTensor), 9, e.settings())
		return appendBytes(b, 5, appendBytes(nil, 1, value))
	}
	value = protowire.AppendFixed32(protowire.AppendTag(value, 2, protowire.Fixed32Type), math.Float32bits(e.Value))
	return appendBytes(b, 5, appendBytes(nil, 1, value))
}

// settings returns the metadata that hold the settings of a run, in the order of their names.
func (e *Event) settings() []byte {
	var session []byte
	for _, name := range slices.Sorted(maps.Keys(e.HParams)) {
		var value []byte
		switch v := e.HParams[name].(type) {
		case float64:
			value = appendDouble(nil, 2, v)
		case string:
			value = appendBytes(nil, 3, v)
		case bool:
			value = appendVarint(nil, 4, protowire.EncodeBool(v))
		}
		session = appendBytes(session, 1, appendBytes(appendBytes(nil, 1, name), 2, value))
	}
	session = appendDouble(session, 5, e.seconds())
	plugin := appendBytes(appendBytes(nil, 1, "hparams"), 2, appendBytes(nil, 3, session))
	return appendBytes(nil, 1, plugin)
}

// seconds is the time of the event since 1970.
func (e *Event) seconds() float64 { return float64(e.Wall.Unix()) + float64(e.Wall.Nanosecond())/1e9 }

// fields calls f for each field of a message, with its number or its data.
func fields(b []byte, f func(field protowire.Number, wire protowire.Type, number uint64, data []byte) error) error {
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("bad protocol buffer key")
		}
		b = b[n:]
		var number uint64
		var data []byte
		switch wire {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			number = uint64(v)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		default:
			return fmt.Errorf("protocol buffer wire type %d", wire)
		}
		if n < 0 {
			return fmt.Errorf("truncated protocol buffer field")
		}
		if err := f(field, wire, number, data); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// decode reads the protocol buffer of an event, and returns an Event for each of its values.
func decode(b []byte) ([]Event, error) {
	var head Event
	var values []Event
	err := fields(b, func(field protowire.Number, wire protowire.Type, number uint64, data []byte) error {
		switch {
		case field == 1 && wire == protowire.Fixed64Type:
			head.Wall = wallTime(math.Float64frombits(number))
		case field == 2 && wire == protowire.VarintType:
			head.Step = int64(number)
		case field == 3 && wire == protowire.BytesType:
			head.FileVersion = string(data)
		case field == 5 && wire == protowire.BytesType:
			return fields(data, func(field protowire.Number, wire protowire.Type, _ uint64, data []byte) error {
				if field != 1 || wire != protowire.BytesType {
					return nil
				}
				var v Event
				if err := v.decodeValue(data); err != nil {
					return err
				}
				values = append(values, v)
				return nil
			})
		case field == 7 && wire == protowire.BytesType:
			return fields(data, func(field protowire.Number, wire protowire.Type, number uint64, _ []byte) error {
				head.Start = head.Start || field == 1 && wire == protowire.VarintType && number == statusStart
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return []Event{head}, nil
	}
	for i := range values {
		values[i].Wall, values[i].Step = head.Wall, head.Step
	}
	return values, nil
}

// wallTime converts seconds since 1970. Times beyond any calendar become zero.
func wallTime(seconds float64) time.Time {
	if math.Abs(seconds) < 1e11 {
		whole, frac := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(frac*1e6))*1000)
	}
	return time.Time{}
}

func (e *Event) decodeValue(b []byte) error {
	return fields(b, func(field protowire.Number, wire protowire.Type, number uint64, data []byte) error {
		switch {
		case field == 1 && wire == protowire.BytesType:
			e.Tag = string(data)
		case field == 2 && wire == protowire.Fixed32Type:
			e.Value = math.Float32frombits(uint32(number))
		}
		return nil
	})
}
