/* Functions that the files of deliveries.h share. */
#ifndef QUIVER_AMQP_DELIVERIES_PARTS_H
#define QUIVER_AMQP_DELIVERIES_PARTS_H

#include "deliveries.h"

/* Make a record in the list of its link; NULL without memory. */
amqp_delivery_t *amqp_delivery_add(amqp_link_deliveries_t *link);

/* Give a record its id, by which outcomes find it; false without memory. */
bool amqp_delivery_number(amqp_delivery_t *delivery, uint32_t id);

/* Move a record from its lists to its session's waiting aborts. */
void amqp_delivery_owe(amqp_delivery_t *delivery);

/* Free the first waiting abort. */
void amqp_delivery_forgive(amqp_delivery_t **owed);

#endif
